// Package sqlite keeps a store in one file on this machine, for a single coordinator.
//
// A Store is the only user of the file: it holds a lock on a file next to it while it is open, so
// that a second coordinator on the same directory is refused, with the name of the first. One
// goroutine writes, on one connection, with a write-ahead log that is synced at every commit;
// readers have connections of their own and see the last commit. A second goroutine checkpoints
// the log into the file while commits go on, because a checkpoint within a commit makes that
// commit slow.
//
// If the file, its log or its lock is removed, moved or replaced while a Store is open, every
// commit fails from then on, until it is back in its place: what was written would be lost.
//
// Rows that other tools write while a Store is open are not refused. Only the epoch's row is
// protected.
package sqlite
