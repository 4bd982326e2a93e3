// Package commit runs a coordinator's core: one goroutine applies commands that come through a bounded queue, another one makes their
// batches durable in the store, and what became durable is shown to watchers. A Loop leads while a Campaign tells it to, keeps what has
// ended within its bounds, and lets reads on a coordinator that does not lead look at a replica. What may be called by which goroutine
// stands with each method; where nothing does, any may call it.
package commit
