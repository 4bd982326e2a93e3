// Package client is the Go client of Bursar's API, for launchers, job services and tools: Client speaks to an agent over its
// Unix socket, to a coordinator over HTTP, or to whichever of several coordinators answers; it retries what is worth retrying, and
// Run takes one process through a whole allocation. It knows nothing of the ledger and holds no state of its own; which calls there are is said by the generated
// code in proto/bursar/v1.
//
// # Retries
//
// A unary call that nobody answered (UNAVAILABLE, or a connection that broke), or that a full queue turned away, is made again
// after a random delay that grows, until the call's deadline: that of its context, or of the wait that an Allocate asks for. A call that
// has neither goes by the RetryPolicy's patience. That is safe for every call but HostService.Sync, which is never repeated:
// Allocate always carries a request id, so that a repeated one is the same allocation, and the others have their effect once.
//
// # Several coordinators
//
// NewCluster makes a client of all coordinators that a Finder knows. Calls go to the leader where it is known, else to any,
// and stay there. Where nobody answers, a stream ends or the answer is UNAVAILABLE, the next attempt goes to another one, to
// every one before any again; when another leader is named, calls follow it. A coordinator that takes connections and says
// nothing is found out within some 4 s, however long its call may wait: as long as somebody waits for it and nothing is heard, it is
// asked for /healthz. Which attempts there are is for the retries to say, which are the same as for one server.
//
// # Concurrency
//
// A Client and everything it returns may be used by any number of goroutines at once. It starts no goroutine of its own beyond
// those of its idle connections and of what it asks coordinators that say nothing; Close ends both.
package client
