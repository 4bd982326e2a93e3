package regularfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// ErrDevice refuses a device or a socket.
var ErrDevice = errors.New("want a file, a named pipe or -")

// ErrTooLarge refuses an input that has more bytes than it may.
var ErrTooLarge = errors.New("is too large")

// ReadInput returns the content, of at most so many bytes, of a file that a person at a shell
// names. A named pipe is read to its end: that is how a shell passes the output of a command
// (process substitution). Errors name the path.
func ReadInput(path string, most int64) ([]byte, error) {
	file, err := OpenInput(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return ReadBounded(path, file, most)
}

// OpenInput opens such a file. It refuses a file without an end or without content.
func OpenInput(path string) (*os.File, error) {
	info, err := os.Stat(path) // before the open, which may do something to a device
	if err != nil {
		return nil, err //nolint:wrapcheck // it names the file
	}
	switch mode := info.Mode(); {
	case mode.IsDir():
		return nil, &fs.PathError{Op: "read", Path: path, Err: syscall.EISDIR}
	case !mode.IsRegular() && mode&os.ModeNamedPipe == 0:
		return nil, fmt.Errorf("%s: %w", path, ErrDevice)
	}
	return os.Open(path) //nolint:gosec,wrapcheck // the user's own choice; it names the file
}

// ReadBounded reads an input, called name, to its end. It refuses more than so many bytes.
func ReadBounded(name string, from io.Reader, most int64) ([]byte, error) {
	content, err := io.ReadAll(io.LimitReader(from, most+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", name, err)
	case int64(len(content)) > most:
		return nil, fmt.Errorf("%s: %w: more than %d bytes: want at most %d", name, ErrTooLarge, most, most)
	}
	return content, nil
}
