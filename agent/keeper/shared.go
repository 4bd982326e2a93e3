package keeper

import (
	"bufio"
	"os"
)

// Confine is the beginning of each mode of the program: the process becomes the engine's user if
// root has started it, becomes the parent of processes that its children leave behind, and drops
// descriptors and signal handlers that it has inherited.
func Confine() error {
	if err := become(); err != nil {
		return err
	}
	inherit()
	return isolate()
}

// Pollable makes a pipe one whose reads take no thread.
func Pollable(fd int, name string) (*os.File, error) { return pollable(fd, name) }

// ReadLine reads up to a line break, at most so many bytes.
func ReadLine(from *bufio.Reader, longest int) ([]byte, error) { return readLine(from, longest) }

// StartClean starts a process as the keeper starts an engine: see startClean.
func StartClean(program string, args []string, attributes *os.ProcAttr) (*os.Process, error) {
	return startClean(program, args, attributes)
}

// Find returns the absolute path of a program, as for Spec.Command.
func Find(name string, environment []string) (string, error) { return find(name, environment) }
