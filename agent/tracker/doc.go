// Package tracker holds an agent's knowledge of its host's allocations, and reconciles it with the
// coordinator. It is the agent's half of Sync, and makes the final check of memory for a grant.
//
// It is a state machine without I/O, clock or goroutine: calls carry the time, and the same calls
// in the same order give the same state and the same requests. The caller sends the requests that
// BuildRegister and BuildSync return, and passes the answers back. These may come late, twice, out
// of order or never.
//
// # Contents
//
// An entry is an allocation of this host, by id, with the epoch in which it was learned. It is in
// one of four phases: held (reserved or active); vetoed (refused, until the coordinator knows it);
// ended (the process ended: a tombstone, until acknowledged); forgotten (known to have ended, so
// that a late answer does not bring it back). An engine is an active allocation with a process
// here.
//
// Within an epoch the newer revision of an allocation wins. A newer epoch wins over any revision.
// The tracker refuses an answer from an older epoch. It gives up a running engine only if the
// coordinator knew of the engine and then says that it ended.
//
// The package ends no process and writes no file. The caller carries out the StopOrders. If Unsaved
// reports changes, the caller stores a Snapshot, or a Change since the last one. The tracker keeps
// sums over all allocations, so that a call for one allocation takes as long with many engines as
// with few.
//
// A Tracker is not safe for concurrent use. Its messages are shared with the caller, and must not
// be changed.
package tracker
