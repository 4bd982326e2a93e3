// Package client is the Go client of Bursar's API, for launchers, job services and tools: Client
// speaks to an agent over its Unix socket, to a coordinator over HTTP, or to whichever of several
// coordinators answers; it retries what is worth retrying, and Run takes one process through a
// whole allocation. It knows nothing of the ledger and holds no state of its own; which calls
// there are is said by the generated code in proto/bursar/v1.
//
// # Retries
//
// A unary call is made again if nobody answered (UNAVAILABLE, or a connection that broke), or if a
// full queue turned it away: after a random delay that grows, until the call's deadline. That is
// the deadline of its context, or of the wait that an Allocate asks for. A call that has neither
// goes by the RetryPolicy's patience. Every call may be repeated except HostService.Sync, which
// never is: Allocate always carries a request id, so that a repeated one is the same allocation,
// and the others have their effect once.
//
// # Several coordinators
//
// NewCluster makes a client of all coordinators that a Finder knows. Calls go to the leader if it
// is known, else to any, and stay there. If nobody answers, a stream ends or the answer is
// UNAVAILABLE, the next attempt goes to another one, and to each one before any again. When
// another leader is named, calls follow it. A coordinator that takes connections and says nothing
// is found out within some 4 s, however long its call may wait: as long as a call waits for it and
// nothing is heard, it is asked for /healthz. The retries decide how many attempts there are, as
// for one server.
//
// # Concurrency
//
// A Client and everything it returns may be used by any number of goroutines at once. It starts no
// goroutine of its own beyond those of its idle connections and of what it asks coordinators that
// say nothing; Close ends both.
package client
