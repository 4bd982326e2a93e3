package host

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// scratch reads small kernel files into a reused buffer, because a pass over the process table
// reads thousands. It belongs to one goroutine.
type scratch struct {
	memory []byte
}

// read returns a file's content, valid until the next read. Files under /proc and /sys have no
// size, so it reads until the end. Errors are *fs.PathError.
func (s *scratch) read(path string) ([]byte, error) {
	var fd int
	err := retried(func() (err error) {
		fd, err = unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		return err //nolint:wrapcheck // below
	})
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	defer func() { _ = unix.Close(fd) }() // Nothing was written, so closing cannot lose data.
	if s.memory == nil {
		s.memory = make([]byte, 8<<10)
	}
	length := 0
	for {
		if length == len(s.memory) {
			s.memory = append(s.memory, make([]byte, len(s.memory))...)
		}
		var n int
		err := retried(func() (err error) {
			n, err = unix.Read(fd, s.memory[length:])
			return err //nolint:wrapcheck // below
		})
		if err != nil {
			return nil, &fs.PathError{Op: "read", Path: path, Err: err}
		}
		if n == 0 {
			return s.memory[:length], nil
		}
		length += n
	}
}

func retried(call func() error) error {
	for {
		if err := call(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// pids lists the pids in the process table.
func pids(proc string, to []int32) ([]int32, error) {
	directory, err := os.Open(proc) //nolint:gosec // it comes from Options
	if err != nil {
		return to, fmt.Errorf("listing processes: %w", err)
	}
	defer func() { _ = directory.Close() }()
	names, err := directory.Readdirnames(-1)
	if err != nil {
		return to, fmt.Errorf("listing processes: %w", err)
	}
	for _, name := range names {
		if name[0] < '0' || name[0] > '9' {
			continue
		}
		pid, err := strconv.ParseInt(name, 10, 32)
		if err != nil {
			continue // Not a process.
		}
		to = append(to, int32(pid))
	}
	return to, nil
}
