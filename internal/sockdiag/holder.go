package sockdiag

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
)

// maxDescriptors bounds the open files of this machine that Holder reads to find a socket.
const maxDescriptors = 1 << 18

// Holder returns a process that has the socket open, from the process table at proc. It reads the
// open files of all processes, which takes about 1 µs each. ErrNone: no process has it, or this
// process may not read that process's files.
func Holder(ctx context.Context, proc string, inode uint32) (pid int32, err error) {
	processes, err := os.ReadDir(proc)
	if err != nil {
		return 0, fmt.Errorf("the process that has a socket: %w", err)
	}
	want := "socket:[" + strconv.FormatUint(uint64(inode), 10) + "]"
	seen := 0
	for _, process := range processes {
		pid, err := strconv.ParseInt(process.Name(), 10, 32)
		if err != nil {
			continue
		}
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		folder := filepath.Join(proc, process.Name(), "fd")
		files, err := os.ReadDir(folder)
		if err != nil {
			continue // it has ended, or we may not read its files
		}
		for _, file := range files {
			if seen++; seen > maxDescriptors {
				return 0, ErrNone
			}
			if target, err := os.Readlink(filepath.Join(folder, file.Name())); err == nil && target == want {
				return int32(pid), nil
			}
		}
	}
	return 0, ErrNone
}
