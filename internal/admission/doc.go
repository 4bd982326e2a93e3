// Package admission keeps one caller of a server from taking it away from the others: it bounds what each caller, and all together,
// have there at a time (connections, requests under way, calls that wait long, bytes of requests and of answers that are held) and how fast requests
// come. What is beyond a bound is refused before its body is read, with RESOURCE_EXHAUSTED and when to try again, counted, and logged
// once a minute for each caller.
//
// A reader who does not read is let go, see Writer.
//
// It does not know who calls: whoever asks it says so. It gives no turns: what is admitted comes in the order that it came in. All
// methods may be called by any goroutine.
package admission
