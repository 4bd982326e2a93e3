// Package core is the write path of a coordinator without its goroutines: commands are applied to
// the ledger in order, gathered into batches, and answered once their batch is durable. It knows
// the leadership, the epochs that hosts have seen, which rules and providers from files hide those
// of the store, and how the ledger's time follows from a clock. It does not wait, reads no clock
// by itself and calls no store: package commit does. A Core belongs to one goroutine.
package core
