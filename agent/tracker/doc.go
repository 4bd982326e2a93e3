// Package tracker is what an agent knows of its host's allocations, and how it agrees on them with
// the coordinator: the agent's half of Sync and of reconciliation, and its last word on memory.
//
// It is a state machine without I/O, clock or goroutine: calls carry the time, and the same calls
// in the same order give the same state and the same requests. The caller sends what BuildRegister
// and BuildSync return and hands back the answers, which may come late, twice, out of order or
// never.
//
// # What it holds
//
// An entry is an allocation of this host, by id, with the epoch in which it was learned. It is
// held (reserved or active), or vetoed (refused, until the coordinator has heard), or ended (its
// process ended: a tombstone, until acknowledged), or forgotten (known to have ended, so that a
// late answer does not bring it back). An engine is an active allocation with a process here.
//
// Within an epoch the newer revision of an allocation wins; a newer epoch wins over any revision;
// an answer from an older epoch is refused. An engine that runs is given up only if the
// coordinator has heard of it and then says that it ended.
//
// The package ends no process and writes no file: the caller carries out the StopOrders it gets,
// and stores a Snapshot, or what has changed since, if Unsaved says that there is something. What
// a call for one allocation needs to know of all others is kept as sums, so that it takes as long
// with many engines as with few.
//
// A Tracker is not safe for concurrent use. The messages it takes and returns are shared, and must
// not be changed.
package tracker
