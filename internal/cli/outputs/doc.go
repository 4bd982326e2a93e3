// Package outputs copies the output of an engine from a server to a file, byte by byte. It goes on
// at the next byte if the connection is lost or another coordinator leads. A Reader belongs to one
// goroutine.
package outputs
