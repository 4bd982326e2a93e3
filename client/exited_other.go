//go:build unix && !linux

package client

// exited reports whether a child has ended. Agents, and so Run, are for Linux; elsewhere the
// package is for callers of a coordinator.
func exited(int) bool { return false }

// awaitEnd returns at once: there is no engine here to be signalled.
func awaitEnd(int) {}
