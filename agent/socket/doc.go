// Package socket serves an agent's local API: on a Unix socket, which is made again if it is
// removed, and on TCP over loopback if that is configured. It says which user makes a call, by
// what the kernel says of the connection, and which process is at the other end. It bounds what
// one user may have at a time: connections, requests, bytes. It bounds how long a request may take
// to arrive, and each part of an answer to leave.
//
// It does not know what is served: the handler is handed in, and asks CallerOf and ProcessOf. It
// does not say what a caller may do either, except which callers may act as anyone.
//
// A Server's methods may be called by several goroutines at a time. Exceptions are Listen and
// Serve, which are called once, in this order, and Check, which is called by one goroutine at a
// time.
package socket
