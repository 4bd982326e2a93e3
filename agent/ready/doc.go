// Package ready says when an engine that the agent has launched is ready: when one of its processes
// listens on a port, when a file is there, when a line was written, or when a command exits with 0.
//
// A caller goes three steps. Refuse, before the launch, refuses a check whose result nobody could
// see. Spec.Look is what the engine's keeper gets at the launch: a helper below it makes every check
// but that of a port, as the engine's user and in the engine's cgroup, and writes what it finds into
// the engine's record. Watcher.Watch follows the engine until it is ready or has failed to be. It
// reads the process table and the record, and nothing that is the user's.
//
// A Check is what has to be stored of a Spec, with the Result once there is one. After a restart the
// caller calls Watch again for engines without a result; their helpers went on meanwhile.
//
// A Watcher may be used by several goroutines at once. Each Watch has a goroutine of its own, for
// which Wait waits.
package ready
