package sqlite

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	"modernc.org/sqlite"
	lib "modernc.org/sqlite/lib"

	"github.com/bursar/bursar/coordinator/store"
)

// code returns SQLite's primary result code; 0 for an error that is not SQLite's.
func code(err error) int {
	if failed, ok := errors.AsType[*sqlite.Error](err); ok {
		return failed.Code() & 0xff
	}
	return 0
}

// classify converts an error of SQLite to the types that callers of a store check for.
func classify(err error) error {
	switch code(err) {
	case lib.SQLITE_FULL:
		return fmt.Errorf("%w: %w", store.ErrFull, err)
	case lib.SQLITE_READONLY:
		return fmt.Errorf("%w: %w", store.ErrReadOnly, err)
	case lib.SQLITE_IOERR, lib.SQLITE_CANTOPEN:
		return fmt.Errorf("%w: %w", store.ErrIO, err)
	case lib.SQLITE_CORRUPT, lib.SQLITE_NOTADB:
		return fmt.Errorf("%w: %w", store.ErrDamaged, err)
	}
	return err
}

// notCommitted reports whether a COMMIT with this error has certainly not happened: the frame that
// completes the transaction was not written, or not in full. After any other failure it may be on
// the disk, and the next process may find it there.
func notCommitted(err error) bool {
	switch code(err) {
	case lib.SQLITE_FULL, lib.SQLITE_BUSY, lib.SQLITE_READONLY:
		return true
	}
	return false
}

// refusal adds advice to an error of Open that has none.
func refusal(path string, err error) error {
	var refused *store.RefusedError
	switch {
	case err == nil || errors.As(err, &refused):
		return err
	case errors.Is(err, fs.ErrPermission) || code(err) == lib.SQLITE_PERM || code(err) == lib.SQLITE_AUTH:
		return &store.RefusedError{
			Where: path, Reason: store.Denied, Found: err.Error(),
			Want: "a directory and a file that this user may read and write", Err: err,
		}
	case errors.Is(err, syscall.EROFS) || code(err) == lib.SQLITE_READONLY:
		return &store.RefusedError{
			Where: path, Reason: store.Denied, Found: err.Error(), Want: "a file system that can be written to", Err: classify(err),
		}
	case code(err) == lib.SQLITE_CORRUPT || code(err) == lib.SQLITE_NOTADB || errors.Is(err, store.ErrDamaged):
		return damaged(path, err.Error(), classify(err))
	case code(err) == lib.SQLITE_BUSY:
		return &store.RefusedError{
			Where: path, Reason: store.InUse, Found: "another program holds a lock on it", Want: "that program to end", Err: err,
		}
	}
	return fmt.Errorf("store %s: %w", path, classify(err))
}
