// Package cgroup gives engines cgroups of their own, with limits, and reads the kernel's data about
// them.
//
// Driver is the agent's interface to cgroups. Direct, in this package, makes them with the kernel's
// own files: in the unified hierarchy (version 2), in the hierarchies of the controllers (version
// 1), or in both if a machine has both. Package unit makes them by systemd, which owns the
// hierarchy if it runs. KernelLog reads which processes the kernel killed for lack of memory, also
// of engines without a cgroup of their own.
//
// Freeze stops the processes of an engine's cgroup for a moment, so that the caller can end them.
// Thaw lets them go on. Version 2 can freeze every cgroup. With version 1 an engine also gets a
// cgroup in the freezer's hierarchy, if the machine has one.
//
// The package does not decide which engines get a cgroup or which limits they get. It never ends a
// process: a cgroup that has processes stays.
//
// Several goroutines may use a Driver at a time, but only one of them for the same engine. Set may
// only be called for engines that this incarnation of the agent, or an earlier one, has created or
// adopted.
package cgroup
