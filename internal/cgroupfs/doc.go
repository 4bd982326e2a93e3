// Package cgroupfs reads cgroups as the kernel shows them: the mounted hierarchies (version 1,
// version 2, or both at once), the cgroups of a process, the files of a cgroup with their units,
// and the processes in a cgroup or below it.
//
// A cgroup is named by its path in a hierarchy, and read through a mount of that hierarchy. With
// version 1 every controller (memory, cpu, cpuset, …) may have a hierarchy of its own. With version
// 2 all controllers share one, the unified hierarchy. A hybrid machine has both. A mount need not
// show the whole hierarchy: in a container it may begin at the container's cgroup. If several
// mounts show a cgroup, the package reads the one with most of the cgroup's ancestors, because it
// shows most limits.
//
// The package only reads: package providers/host measures, and package agent/cgroup makes and
// changes cgroups. The caller passes in the function that reads a file, so that it can bound the
// read, or replace the kernel in tests.
//
// All functions are safe for concurrent use. A Walk belongs to one goroutine.
package cgroupfs
