// Package unit gives engines cgroups through units of systemd: a transient scope for an engine that
// runs already, a transient service for the keeper of a new one. If systemd runs, it owns the
// hierarchy of cgroups, and other programs may make cgroups only below those that systemd has given
// them. The package speaks D-Bus, as root over systemd's private socket, so it needs no D-Bus
// daemon.
//
// The units of engines are in the slice bursar-engines.slice and depend on nothing: neither the
// agent's end nor its package's removal ends them. The package never stops a unit that has
// processes.
//
// Units may be used by several goroutines at a time, for different engines. It is a cgroup.Driver.
package unit
