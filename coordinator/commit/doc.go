// Package commit runs a coordinator's core. One goroutine applies commands that come through a
// bounded queue, another one makes their batches durable in the store, and durable changes are
// shown to watchers. A Loop leads while a Campaign tells it to, keeps ended allocations within
// their bounds, and lets reads on a coordinator that does not lead use a replica. Each method says
// which goroutine may call it; if it says nothing, any may.
package commit
