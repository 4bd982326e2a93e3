//go:build linux

// Package netlab makes networks for tests: nodes, each a network namespace with an address of its
// own, on one bridge. A wire between two nodes can be cut and repaired with all connections open:
// packets vanish without notice. Nothing in it has a name on the machine or an address that others
// could reach, and it needs no programs.
//
// A test of this kind runs in a network namespace of its own, which Main enters: as root, or by a
// user namespace if the kernel allows that. Namespaces live as long as the processes in them, and
// all that Command starts ends with the test, however the test ends. So nothing is left behind.
//
// A Lab's methods may be called by many goroutines.
package netlab
