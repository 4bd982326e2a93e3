//go:build unix && !linux

package client

// exited reports whether a child has ended. Agents, and thus Run, need Linux; on other systems the
// package is for callers of a coordinator.
func exited(int) bool { return false }

// awaitEnd returns at once: no engine is signalled on these systems.
func awaitEnd(int) {}
