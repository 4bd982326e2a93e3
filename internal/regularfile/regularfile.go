// Package regularfile opens and reads files that a configuration or a command line names. It never
// blocks on something else at the path: opening a named pipe waits for a writer, and a device may
// never end. All functions are safe for concurrent use.
package regularfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// ErrNotRegular rejects a named pipe, a socket, a device or a directory.
var ErrNotRegular = errors.New("want a regular file")

// Open opens a regular file for reading and returns its FileInfo. Errors name the path; one of them
// is ErrNotRegular.
func Open(path string) (*os.File, fs.FileInfo, error) {
	// O_NONBLOCK has no effect on regular files (open(2)).
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) //nolint:gosec // the operator says which
	// a socket, or a device without a driver
	if errors.Is(err, syscall.ENXIO) {
		return nil, nil, fmt.Errorf("%s: %w", path, ErrNotRegular)
	}
	if err != nil {
		return nil, nil, err //nolint:wrapcheck // it names the file
	}
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s: %w", path, ErrNotRegular)
	}
	if err != nil {
		_ = file.Close()     // nothing was read
		return nil, nil, err //nolint:wrapcheck // it names the file
	}
	return file, info, nil
}

// Read returns the content of a regular file, up to most bytes. Errors name the path; one of
// them is ErrNotRegular.
func Read(path string, most int64) ([]byte, error) {
	file, info, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if info.Size() > most {
		return nil, fmt.Errorf("%s: %d bytes: want at most %d", path, info.Size(), most)
	}
	content, err := io.ReadAll(io.LimitReader(file, most+1))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if int64(len(content)) > most { // it grew, or the kernel generates it on reading
		return nil, fmt.Errorf("%s: more than %d bytes: want at most %d", path, most, most)
	}
	return content, nil
}
