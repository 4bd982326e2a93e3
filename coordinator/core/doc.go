// Package core is the write path of a coordinator without its goroutines. It applies commands to
// the ledger in order, gathers them into batches, and answers them once their batch is durable. It
// holds the leadership, the epochs that hosts have seen, the rules and providers of files, which
// may hide stored ones, and the skew of the ledger's time. It does not wait, and calls neither a
// clock nor a store: package commit does. A Core belongs to one goroutine.
package core
