package sqlite

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"

	"github.com/bursar/bursar/coordinator/store"
	"github.com/bursar/bursar/internal/regularfile"
)

// acquire takes the lock of a store's file: the lock of a file next to it, which contains the pid
// of the holder. The kernel releases it when the process ends, however it ends. The database's own
// locks are not enough: they admit several processes, and any close of the file in this process
// drops them.
func acquire(path string) (*os.File, error) {
	file, err := openLock(path)
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

// openLock opens the lock file, and creates it if there is none. If root creates it, it belongs to
// the owner of the store, like the files that SQLite creates next to it: that user must be able to
// take the lock.
func openLock(path string) (*os.File, error) {
	const flags = os.O_RDWR | syscall.O_NOFOLLOW | syscall.O_NONBLOCK
	file, err := os.OpenFile(path+lockSuffix, flags, 0) //nolint:gosec // the operator says where
	if !errors.Is(err, fs.ErrNotExist) {
		return regular(file, err)
	}
	file, err = os.OpenFile(path+lockSuffix, flags|os.O_CREATE, 0o600) //nolint:gosec // as above
	if err != nil || os.Geteuid() != 0 {
		return regular(file, err)
	}
	if of, statErr := os.Lstat(path); statErr == nil { //nolint:gosec // as above
		if stat, ok := of.Sys().(*syscall.Stat_t); ok && of.Mode().IsRegular() {
			err = file.Chown(int(stat.Uid), int(stat.Gid))
		}
	}
	return regular(file, err)
}

// regular closes and refuses an opened file that is not a regular one.
func regular(file *os.File, err error) (*os.File, error) {
	if err == nil {
		var info fs.FileInfo
		if info, err = file.Stat(); err == nil && !info.Mode().IsRegular() {
			err = fmt.Errorf("%s: %w", file.Name(), regularfile.ErrNotRegular)
		}
	}
	if err != nil && file != nil {
		_ = file.Close() // nothing was written
	}
	if err != nil {
		return nil, err //nolint:wrapcheck // it names the file
	}
	return file, nil
}

// writeHolder writes the pid of this process into the lock file.
func writeHolder(file *os.File) error {
	if err := file.Truncate(0); err != nil {
		return fmt.Errorf("lock file: %w", err)
	}
	if _, err := file.WriteAt(fmt.Appendf(nil, "%d\n", os.Getpid()), 0); err != nil {
		return fmt.Errorf("lock file: %w", err)
	}
	return nil
}

// holder describes the holder of the lock, as far as the file names it.
func holder(file *os.File) string {
	text, err := io.ReadAll(io.LimitReader(file, 32))
	pid := bytes.TrimSpace(text)
	if err != nil || len(pid) == 0 {
		return "another process"
	}
	return "process " + string(pid)
}
