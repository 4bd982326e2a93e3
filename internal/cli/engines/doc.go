// Package engines has the commands that start an engine, follow it and end it. To add a
// command, write a function that returns it, in a file of its name, and list it in Commands.
package engines
