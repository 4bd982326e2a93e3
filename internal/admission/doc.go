// Package admission protects the callers of a server from each other. It bounds the use of each
// caller, and of all together (connections, requests in flight, calls that wait long, held bytes of
// requests and answers), and the rate of requests. It refuses a request beyond a bound before its
// body is read, with RESOURCE_EXHAUSTED and the time to try again. It counts refusals, and logs
// them once a minute for each caller.
//
// A client that does not read its answer loses the connection, see Writer.
//
// The package does not authenticate: its user names the caller. It queues nothing: admitted
// requests keep their order. Any goroutine may call the methods.
package admission
