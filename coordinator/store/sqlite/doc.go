// Package sqlite keeps a store in one file on this machine, for a coordinator that is alone.
//
// A Store has the file to itself: it holds a lock beside it for as long as it is open, so that a second coordinator on the same
// directory is refused by name. One goroutine writes, on one connection, with a write-ahead log that is synced at every commit;
// readers have connections of their own and see the last commit. What the log holds is carried over into the file by a
// second goroutine while commits go on, because that is what makes single commits slow.
//
// Rows written by hand with other tools while a Store is open are not refused, only the epoch's row protects itself.
package sqlite
