// Package client is the Go client of Bursar's API, for launchers, job services and tools: Client speaks to an agent over its
// Unix socket or to a coordinator over HTTP, retries what is worth retrying, and Run takes one process through a whole
// allocation. It knows nothing of the ledger and holds no state of its own; which calls there are is said by the generated
// code in proto/bursar/v1.
//
// # Retries
//
// A unary call that nobody answered (UNAVAILABLE, or a connection that broke), or that a full queue turned away, is made again
// after a random delay that grows, until the call's deadline or the RetryPolicy's patience is over. That is safe for every
// call but HostService.Sync, which is never repeated: Allocate always carries a request id, so that a repeated one is the same
// allocation, and the others have their effect once.
//
// # Concurrency
//
// A Client and everything it returns may be used by any number of goroutines at once. It starts no goroutine of its own beyond
// those of its idle connections, which Close ends.
package client
