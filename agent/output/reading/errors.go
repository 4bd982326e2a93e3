package reading

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// Code says why output cannot be read. It is a byte of a frame.
type Code byte

const (
	// Internal is a fault of the machine or of the program.
	Internal Code = 'i'
	// Invalid refuses a Request.
	Invalid Code = 'v'
	// Gone says that the folder is not there.
	Gone Code = 'g'
	// Denied says that the user may not read the folder or the files.
	Denied Code = 'd'
	// Irregular says that something else is in the place of a file.
	Irregular Code = 'r'
	// Stranger says that a file is another user's.
	Stranger Code = 's'
	// Damaged says that no keeper has written the file of offsets like this.
	Damaged Code = 'm'
	// Taken says that the folder has the output of another engine by now, or that other programs
	// write into its files.
	Taken Code = 't'
	// Uncounted says that files without offsets were removed while they were read.
	Uncounted Code = 'u'
)

// Known reports whether the code is one of these.
func (c Code) Known() bool {
	switch c {
	case Internal, Invalid, Gone, Denied, Irregular, Stranger, Damaged, Taken, Uncounted:
		return true
	}
	return false
}

// Error says why output cannot be read.
type Error struct {
	Code Code
	// Text names the file.
	Text string
}

func (e *Error) Error() string { return e.Text }

func wrong(code Code, format string, args ...any) error {
	return &Error{code, fmt.Sprintf(format, args...)}
}

// failed is the error of a call on a file.
func failed(path string, err error) error {
	code := Internal
	switch {
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM):
		code = Denied
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR):
		code = Gone
	case errors.Is(err, unix.ELOOP), errors.Is(err, unix.ENXIO):
		code = Irregular
	}
	return wrong(code, "%s: %v", path, err)
}
