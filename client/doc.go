// Package client is the Go client of Bursar's API, for launchers, job services and tools. Client
// calls an agent over its Unix socket, a coordinator over HTTP, or one of several coordinators. It
// retries calls, and Run takes one process through a whole allocation. It does not use the ledger
// and has no state of its own. The generated code in proto/bursar/v1 defines the calls.
//
// # Retries
//
// A unary call is repeated if nobody answered (UNAVAILABLE, or a broken connection) or if a full
// queue refused it: after a random delay that grows, until the call's deadline. That is the
// deadline of its context, or of the wait that an Allocate asks for. A call without either follows
// the RetryPolicy's patience. HostService.Sync is never repeated, and EngineService.Signal is not
// repeated after it was sent. All other calls may be repeated: Allocate always carries a request
// id, so that a repeated one is the same allocation, and the others have their effect once.
//
// # Several coordinators
//
// NewCluster makes a client of all coordinators that a Finder knows. Calls go to the leader if it
// is known, else to any, and stay there. If nobody answers, a stream ends or the answer is
// UNAVAILABLE, the next attempt goes to another coordinator, and to each one before any again. When
// another leader is named, calls follow it. A coordinator that accepts connections and does not
// answer is detected within some 4 s, even if its call may wait for longer: while a call waits and
// nothing arrives, the client requests /healthz. The number of attempts is as for one server.
//
// # Concurrency
//
// A Client and the values that it returns may be used by several goroutines at once. It starts
// goroutines only for its idle connections and for the requests of /healthz; Close ends both.
package client
