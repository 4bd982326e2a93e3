// Package commit runs a coordinator's core. One goroutine applies commands from a bounded queue.
// Another one makes their batches durable in the store, and publishes durable changes to watchers.
// A Campaign tells a Loop when to lead. The Loop also keeps the history within its bounds, and has
// a replica for reads on a coordinator that does not lead. Unless its comment says otherwise, any
// goroutine may call a method.
package commit
