// Package ready says when an engine that the agent has launched is ready: when one of its processes
// listens on a port, when a file is there, when a line was written, or when a command exits with 0.
//
// A caller goes three steps. Before the launch, Sight.Refuse refuses a check whose result the agent
// could not see. At the launch, the keeper gets Spec.Look: a helper below it makes every check but
// that of a port, as the engine's user and in the engine's cgroup, and writes its findings into the
// engine's record. Then Watcher.Watch follows the engine until it is ready or has failed to be. It
// reads the process table and the record, and no file of a user.
//
// A Check is the part of a Spec that the caller has to store, with the Result once there is one.
// After a restart the caller calls Watch again for engines without a result. Their helpers have
// gone on meanwhile.
//
// A Watcher may be used by several goroutines at once. Each Watch has a goroutine of its own, for
// which Wait waits.
package ready
