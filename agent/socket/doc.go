// Package socket serves an agent's local API: on a Unix socket, which is made again if it is
// removed, and on TCP over loopback if that is configured. It finds the user of a call, and the
// process at the other end, from the kernel's data about the connection. It bounds the connections,
// requests and bytes of one user. It also bounds the time in which a request must arrive, and the
// time for each write of an answer.
//
// It does not know the API: its user passes in the handler, which calls CallerOf and ProcessOf. It
// does not authorize calls either, but it knows the callers that may act as anyone.
//
// A Server's methods may be called by several goroutines at a time, with three exceptions: Listen
// and Serve must be called once, in this order, and Check by one goroutine at a time.
package socket
