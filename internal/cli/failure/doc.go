// Package failure has the errors that a command ends with: it gives each its exit code, and tells
// the user in words, or as JSON, what went wrong and what helps. A Reporter knows the flags of the
// command and the server of its last call; one goroutine at a time may change its fields.
package failure
