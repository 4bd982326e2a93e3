// Package failure has the errors that a command ends with, and the exit code of each. A Reporter
// tells the user of an error and of its remedy, in words or as JSON. It knows the flags of the
// command and the server of its last call; one goroutine at a time may change its fields.
package failure
