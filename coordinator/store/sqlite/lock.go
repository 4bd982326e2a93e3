package sqlite

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"

	"github.com/bursar/bursar/coordinator/store"
)

// acquire takes the lock of a store's file: that of a file next to it, which has the pid of the
// process that holds the lock. The kernel releases it when the process ends, however it ends. The
// database's own locks are not enough: they admit several processes, and any close of the file in
// this process drops them.
func acquire(path string) (*os.File, error) {
	file, err := os.OpenFile(path+".lock", os.O_RDWR|os.O_CREATE, 0o600) //nolint:gosec // the operator says where
	if err != nil {
		return nil, refusal(path, err)
	}
	err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		holder := holder(file)
		file.Close()
		return nil, &store.RefusedError{
			Where: path, Reason: store.InUse, Found: holder + " has it open",
			Want: "one coordinator per store: end that process, or use another directory", Err: err,
		}
	}
	if err == nil {
		err = writeHolder(file)
	}
	if err != nil {
		file.Close()
		return nil, refusal(path, err)
	}
	return file, nil
}

// writeHolder writes down who holds the lock.
func writeHolder(file *os.File) error {
	if err := file.Truncate(0); err != nil {
		return fmt.Errorf("lock file: %w", err)
	}
	if _, err := file.WriteAt(fmt.Appendf(nil, "%d\n", os.Getpid()), 0); err != nil {
		return fmt.Errorf("lock file: %w", err)
	}
	return nil
}

// holder says who holds the lock, as far as the file says.
func holder(file *os.File) string {
	text, err := io.ReadAll(io.LimitReader(file, 32))
	pid := bytes.TrimSpace(text)
	if err != nil || len(pid) == 0 {
		return "another process"
	}
	return "process " + string(pid)
}
