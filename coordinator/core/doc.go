// Package core is the write path of a coordinator without its goroutines: commands are applied to the ledger in order, gathered into
// batches, and answered once their batch is durable. It knows which leadership this is, which epochs hosts have seen, what the files of
// rules and providers put over the store, and how the ledger's time follows from a clock. It waits for nothing, reads no clock by itself
// and calls no store: package commit does. A Core belongs to one goroutine.
package core
