// Package cgroup gives engines cgroups of their own, with limits, and says what the kernel did to
// them there.
//
// Driver is what an agent needs of it, however the cgroups are made. Direct, here, makes them with
// the kernel's own files: in the unified hierarchy (version 2), in those of the controllers
// (version 1), or in both if a machine has both. Package unit makes them by asking systemd, which
// owns the hierarchy where it runs. KernelLog reads which processes the kernel killed for lack of
// memory, also of engines without a cgroup of their own.
//
// Freeze stops the processes of an engine's cgroup for a moment, for a caller that ends them; Thaw
// lets them go on. Version 2 can do that to every cgroup. With version 1 an engine gets a cgroup in
// the freezer's hierarchy too, if there is one.
//
// Nothing here decides who gets a cgroup or which limits, and nothing here ever ends a process: a
// cgroup that has processes stays.
//
// A Driver may be used by several goroutines at a time, for different engines; what is done to one
// engine is done by one at a time. Set may only be called for engines that were created or
// adopted, by this incarnation of the agent or an earlier one.
package cgroup
