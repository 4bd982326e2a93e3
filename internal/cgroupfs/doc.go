// Package cgroupfs reads cgroups as the kernel shows them: the mounted hierarchies (version 1,
// version 2, or both at once), the cgroups of a process, the files of a cgroup with their units,
// and the processes in a cgroup or below it.
//
// A cgroup is named by a path in its hierarchy, and read through a mount of that hierarchy. On a
// machine with version 1 every controller (memory, cpu, cpuset, …) may have a hierarchy of its
// own; with version 2 there is one for all, the unified one; a hybrid machine has both. A mount
// need not show the whole hierarchy: in a container it may begin at the container's cgroup. If
// several mounts show a cgroup, the one that shows most of its ancestors is read, as it shows most
// limits.
//
// It does not decide what is measured (package providers/host), and it makes, moves and changes
// nothing (package agent/cgroup). How a file is read is handed in, so that a caller can bound it,
// or play the kernel.
//
// All functions may be called by several goroutines at a time. A Walk belongs to one.
package cgroupfs
