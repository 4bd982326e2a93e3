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

// Self is this program, also if its file was replaced. It is started in place of the command.
const Self = "/proc/self/exe"

// variable tells the program that it is to wait, on which descriptors, and for which command:
// "GO,STATUS,PATH". The command does not see it.
const variable = "BURSAR_HELD"

// letGo is what the pipe brings when the command may begin.
const letGo = 'g'

// Gate is what a command waits at.
type Gate struct {
	path        string
	first, last *os.File // the process reads the one, and writes its error to the other
	let, status *os.File // their other ends
}

// New returns the gate of a command. path is its program, as exec.Cmd.Path has it.
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

// Files are what the process must get as its files from the number at on, and Environment is what
// it must have as its environment then.
func (g *Gate) Files() []*os.File { return []*os.File{g.first, g.last} }

// Environment is described at Files. It has what the command is to have. A variable of the gate's
// name that is there already is not the gate's.
func (g *Gate) Environment(env []string, at int) []string {
	return append(without(env), variable+"="+strconv.Itoa(at)+","+strconv.Itoa(at+1)+","+g.path)
}

// without is an environment without the gate's variable.
func without(env []string) []string {
	return slices.DeleteFunc(slices.Clone(env), func(entry string) bool { return strings.HasPrefix(entry, variable+"=") })
}

// Started is to be called once the process was started, or could not be: it has files of its own.
func (g *Gate) Started() {
	for _, end := range []*os.File{g.first, g.last} {
		if end != nil {
			_ = end.Close() // at most twice
		}
	}
}

// Release lets the command begin, and returns when it has. The error is that of a command that
// cannot be executed, a *fs.PathError as of os.StartProcess, or that of ctx. A process that was
// ended while it waited is no error: how it ended says so.
func (g *Gate) Release(ctx context.Context) error {
	defer g.Abandon()
	if _, err := g.let.Write([]byte{letGo}); err != nil {
		return nil // it has ended
	}
	failed := make(chan syscall.Errno, 1)
	go func() {
		var number [4]byte
		if _, err := io.ReadFull(g.status, number[:]); err != nil {
			failed <- 0 // the kernel has closed it for the command
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

// Abandon ends the process if it still waits: the command never begins then.
func (g *Gate) Abandon() {
	for _, end := range []*os.File{g.let, g.status} {
		if end != nil {
			_ = end.Close() // at most twice
		}
	}
}
