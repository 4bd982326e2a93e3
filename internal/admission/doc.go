// Package admission keeps one caller of a server from taking it away from the others: it bounds
// what each caller, and all together, have there at a time (connections, requests under way, calls
// that wait long, bytes of requests and of answers that are held) and how fast requests come. What
// is beyond a bound is refused before its body is read, with RESOURCE_EXHAUSTED and when to try
// again, counted, and logged once a minute for each caller.
//
// A reader who does not read loses the connection, see Writer.
//
// It does not know who calls: its user says so. It queues nothing: what is admitted goes on in the
// order in which it came. Any goroutine may call the methods.
package admission
