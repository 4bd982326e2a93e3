// Package reading reads an engine's output from its log files, as the engine's user. It is the
// helper: a mode of the keeper's program that an agent starts for each reader. The agent, which
// may be root, never opens the files of users itself.
//
// A Reader finds each byte by its offset (package offsets), while the keeper rotates and removes
// files and the user does anything to them. Serve is the helper's main function: it reads a
// Request from descriptor 0 and streams frames to descriptor 1 until the output has ended, or
// until the agent closes one of the two.
//
// The log files must be regular files of the user in the folder itself: a link, a FIFO or a device
// is refused, and so is a file of another user, which the folder may show through a link or a
// mount.
//
// The package is part of a small program: it imports the standard library, golang.org/x/sys and
// package offsets alone. A Reader belongs to one goroutine.
package reading
