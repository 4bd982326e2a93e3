package regularfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// ErrDevice rejects a device or a socket.
var ErrDevice = errors.New("want a file, a named pipe or -")

// ErrTooLarge rejects an input above the size limit.
var ErrTooLarge = errors.New("is too large")

// ReadInput returns the content of a file that a user names in a shell, up to most bytes. It
// reads a named pipe to its end, because shells pass the output of a command in this way (process
// substitution). Errors name the path.
func ReadInput(path string, most int64) ([]byte, error) {
	file, err := OpenInput(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return ReadBounded(path, file, most)
}

// OpenInput opens such a file. It rejects a file without an end or without content.
func OpenInput(path string) (*os.File, error) {
	info, err := os.Stat(path) // before the open, which can have effects on a device
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

// ReadBounded reads an input, called name, to its end. It rejects more than most bytes.
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
