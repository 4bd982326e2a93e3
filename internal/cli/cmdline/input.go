package cmdline

import (
	"errors"
	"fmt"

	"github.com/bursar/bursar/internal/cli/failure"
	"github.com/bursar/bursar/internal/regularfile"
)

// maxFile bounds a file of rules or queues, in bytes. Coordinators have the same bound.
const maxFile = 8 << 20

// ReadFile reads a file, or standard input if the name is "-".
func (c *Invocation) ReadFile(file string) (name string, data []byte, err error) {
	if file == "-" {
		name = "stdin"
		data, err = regularfile.ReadBounded(name, c.In, maxFile)
	} else {
		name = file
		data, err = regularfile.ReadInput(file, maxFile)
	}
	if err != nil {
		return "", nil, Unusable(fmt.Errorf("read: %w", err))
	}
	return name, data, nil
}

// Unusable gives the error of an input that can never be read the exit code for bad data.
func Unusable(err error) error {
	if errors.Is(err, regularfile.ErrDevice) || errors.Is(err, regularfile.ErrTooLarge) {
		return &failure.ExitError{Code: failure.ExitData, Err: err}
	}
	return err
}
