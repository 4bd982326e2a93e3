package keeper

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/bursar/bursar/internal/hold"
)

// hold makes the new process wait, and returns the program to start in place of the engine's
// program. It checks the engine's program as far as possible now, because a confirmed engine has
// used its allocation.
func (e *engine) hold(attributes *os.ProcAttr) (string, error) {
	if err := probe(e.program.path); err != nil {
		return "", err
	}
	gate, err := hold.New(e.program.starts)
	if err != nil {
		return "", err //nolint:wrapcheck // says all
	}
	e.gate = gate
	attributes.Env = gate.Environment(attributes.Env, len(attributes.Files))
	attributes.Files = append(attributes.Files, gate.Files()...)
	return hold.Self, nil
}

// begin lets the engine begin, and says whether it has.
func (e *engine) begin() Started {
	defer e.program.close()
	if err := e.gate.Release(context.Background()); err != nil {
		return notStarted(e.program.describe(err))
	}
	return e.asStarted()
}

// shebang is how much of a script the kernel looks at for its interpreter, in bytes.
const shebang = 256

// interpreters is how many scripts may be the interpreters of each other, as the kernel has it.
const interpreters = 4

// probe finds out whether a program can be executed, without doing so. It finds the faults that
// people make. The error is the kernel's.
func probe(program string) error {
	for range interpreters {
		info, err := os.Stat(program)
		if err != nil {
			return errors.Unwrap(err)
		}
		if !info.Mode().IsRegular() {
			return unix.EACCES
		}
		if err := unix.Access(program, unix.X_OK); err != nil {
			return err //nolint:wrapcheck // describe knows it
		}
		next, err := interpreter(program)
		if err != nil || next == "" {
			return err
		}
		program = next
	}
	return nil // the kernel decides
}

// interpreter is the program that runs a script; empty: the kernel runs it, or cannot be asked.
func interpreter(program string) (string, error) {
	head, err := headOf(program)
	if err != nil {
		return "", nil //nolint:nilerr // the user may be able to execute but not to read it; the kernel reports faults
	}
	if !bytes.HasPrefix(head, []byte("#!")) {
		if bytes.HasPrefix(head, []byte("\x7fELF")) || otherFormats() {
			return "", nil
		}
		return "", syscall.ENOEXEC
	}
	name := interpreterOf(head)
	switch {
	case name == "":
		return "", syscall.ENOEXEC
	case !path.IsAbs(name):
		return "", nil // from the working directory, as the kernel has it
	}
	return name, nil
}

// headOf is the beginning of a program.
func headOf(program string) ([]byte, error) {
	file, err := os.OpenFile(program, os.O_RDONLY|unix.O_NONBLOCK, 0) //nolint:gosec // as its user
	if err != nil {
		return nil, err //nolint:wrapcheck // it names the file
	}
	defer file.Close()
	head := make([]byte, shebang)
	n, err := io.ReadFull(file, head)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, err //nolint:wrapcheck // as above
	}
	return head[:n], nil
}

// otherFormats reports whether the kernel may know other programs than its own and scripts.
func otherFormats() bool {
	entries, err := os.ReadDir("/proc/sys/fs/binfmt_misc")
	return err == nil && len(entries) > 2 // register and status
}
