// Package sqlite keeps a store in one file on this machine, for a single coordinator.
//
// A Store is the only user of the file: while it is open, it holds a lock on a file next to it. So
// a second coordinator on the same directory is refused, with the name of the first. One goroutine
// writes, on one connection, with a write-ahead log that is synced at every commit; readers have
// connections of their own and see the last commit. A second goroutine checkpoints the log into the
// file during commits, because a checkpoint within a commit makes that commit slow.
//
// If the file, its log or its lock is removed, moved or replaced while a Store is open, every
// commit fails until it is back in its place: its writes would be lost.
//
// A Store does not refuse rows that other tools write while it is open. It protects only the
// epoch's row.
package sqlite
