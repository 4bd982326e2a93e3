// Package unit gives engines cgroups by asking systemd for units: a transient scope for an engine
// that runs already, a transient service for the keeper of one that is to be started. If systemd
// runs, it owns the hierarchy of cgroups, and no other program may make any outside of what
// systemd has given it. The package speaks D-Bus, as root over systemd's private socket: no D-Bus
// daemon is needed.
//
// The units of engines stand in the slice bursar-engines.slice and depend on nothing: neither the
// agent's end nor its package's removal ends them. Nothing here stops a unit that has processes.
//
// Units may be used by several goroutines at a time, for different engines. It is a cgroup.Driver.
package unit
