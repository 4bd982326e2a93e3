package hold

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// Self is this program, even if its file was replaced. It is started in place of the command.
const Self = "/proc/self/exe"

// variable tells the program to wait, with the descriptors and the command: "GO,STATUS,PATH". The
// command does not see it.
const variable = "BURSAR_HELD"

// letGo is the byte in the pipe that releases the command.
const letGo = 'g'

// Gate holds one command.
type Gate struct {
	path        string
	first, last *os.File // the process reads from first, and writes its error to last
	let, status *os.File // their other ends
}

// New returns the gate of a command. path is its program, as in exec.Cmd.Path.
func New(path string) (*Gate, error) {
	g := &Gate{path: path}
	var err error
	if g.first, g.let, err = os.Pipe(); err != nil {
		return nil, fmt.Errorf("hold: %w", err)
	}
	if g.status, g.last, err = os.Pipe(); err != nil {
		g.Started()
		g.Abandon()
		return nil, fmt.Errorf("hold: %w", err)
	}
	return g, nil
}

// Files returns the files to pass to the process, at consecutive numbers starting with at.
// Environment returns its environment for the same at.
func (g *Gate) Files() []*os.File { return []*os.File{g.first, g.last} }

// Environment returns the process's environment; see Files. env is the command's environment. An
// existing variable of the gate's name in env is dropped.
func (g *Gate) Environment(env []string, at int) []string {
	return append(without(env), variable+"="+strconv.Itoa(at)+","+strconv.Itoa(at+1)+","+g.path)
}

// without returns an environment without the gate's variable.
func without(env []string) []string {
	return slices.DeleteFunc(slices.Clone(env), func(entry string) bool { return strings.HasPrefix(entry, variable+"=") })
}

// Started must be called after the start of the process, successful or not: the process has its own
// copies of the files.
func (g *Gate) Started() {
	for _, end := range []*os.File{g.first, g.last} {
		if end != nil {
			_ = end.Close() // at most the second time
		}
	}
}

// Release releases the command, and returns once it has begun. The error is a *fs.PathError, like
// that of os.StartProcess, if the command cannot be executed, or that of ctx. If the process was
// ended while it waited, Release returns no error; its exit status tells.
func (g *Gate) Release(ctx context.Context) error {
	defer g.Abandon()
	if _, err := g.let.Write([]byte{letGo}); err != nil {
		return nil // the process has ended
	}
	failed := make(chan syscall.Errno, 1)
	go func() {
		var number [4]byte
		if _, err := io.ReadFull(g.status, number[:]); err != nil {
			failed <- 0 // the kernel has closed it on exec
			return
		}
		failed <- syscall.Errno(binary.NativeEndian.Uint32(number[:]))
	}()
	select {
	case errno := <-failed:
		if errno != 0 {
			return &fs.PathError{Op: "fork/exec", Path: g.path, Err: errno}
		}
		return nil
	case <-ctx.Done():
		return ctx.Err() //nolint:wrapcheck // the caller's own
	}
}

// Abandon ends the process if it still waits: the command then never begins.
func (g *Gate) Abandon() {
	for _, end := range []*os.File{g.let, g.status} {
		if end != nil {
			_ = end.Close() // at most the second time
		}
	}
}
