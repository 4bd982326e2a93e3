package sqlite

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/bursar/bursar/coordinator/store"
	"github.com/bursar/bursar/internal/regularfile"
)

// suffixes are the ends of the names of all files that this process or SQLite writes for a store.
// SQLite follows symbolic links there.
var suffixes = []string{"", lockSuffix, walSuffix, "-shm", "-journal"}

const (
	lockSuffix = ".lock"
	walSuffix  = "-wal"
)

// Guard refuses, with a *store.RefusedError, a place at which other users could make root's store
// write to any file. That is so if the folder, a folder above it or a file of the store belongs to
// another user or can be written by others. For users other than root it does nothing. It creates
// nothing.
func Guard(path string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return fmt.Errorf("store %s: %w", path, err)
	}
	if err := unguarded(path, regularfile.Guarded(filepath.Dir(path), 0)); err != nil {
		return err
	}
	target, err := resolve(path)
	if err != nil {
		return err
	}
	if err := unguarded(path, regularfile.Guarded(filepath.Dir(target), 0)); err != nil {
		return err
	}
	for _, suffix := range suffixes {
		if err := unguarded(path, regularfile.GuardedFile(target+suffix, 0)); err != nil {
			return err
		}
	}
	return nil
}

// checkFiles refuses a store with a file that is a symbolic link, or not a regular file. For root
// it accepts only files of the folder's owner and of root, and none in a folder into which others
// may put files. The path is the resolved one.
func checkFiles(path string) error {
	owner, err := checkFolder(path)
	if err != nil {
		return err
	}
	for _, suffix := range suffixes {
		file := path + suffix
		info, err := os.Lstat(file) //nolint:gosec // the operator says where
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return refusal(path, err)
		}
		stat, _ := info.Sys().(*syscall.Stat_t)
		denied := &store.RefusedError{Where: path, Reason: store.Denied}
		switch {
		case !info.Mode().IsRegular() && suffix == "":
			return foreign(path, "it is a "+kind(info.Mode()))
		case !info.Mode().IsRegular():
			denied.Found, denied.Want = file+" is a "+kind(info.Mode()), "a regular file, or none"
			return denied
		case os.Geteuid() != 0 || stat == nil:
		case stat.Uid != owner && stat.Uid != 0:
			denied.Found = fmt.Sprintf("%s is owned by uid %d", file, stat.Uid)
			denied.Want = fmt.Sprintf("a file of uid %d, as its folder", owner)
			return denied
		case stat.Uid != owner && stat.Nlink > 1:
			// the folder's owner may have linked it from another place
			denied.Found = fmt.Sprintf("%s is a file of root's with %d names", file, stat.Nlink)
			denied.Want = fmt.Sprintf("a file of uid %d, as its folder", owner)
			return denied
		}
	}
	return nil
}

// checkFolder returns the owner of the folder. For root it refuses a folder that others than its
// owner may write to, unless the sticky bit protects existing files.
func checkFolder(path string) (owner uint32, err error) {
	dir := filepath.Dir(path)
	info, err := os.Stat(dir) //nolint:gosec // the operator says where
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, refusal(path, err)
	}
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		owner = stat.Uid
	}
	if os.Geteuid() == 0 && info.Mode().Perm()&0o002 != 0 && info.Mode()&fs.ModeSticky == 0 {
		return 0, unguarded(path, &regularfile.GuardError{Path: dir, Owner: owner, Mode: info.Mode(), Want: "that nobody else may write to it"})
	}
	return owner, nil
}

// unguarded refuses a path that other users could change.
func unguarded(path string, err error) error {
	if err == nil {
		return nil
	}
	wrong, ok := errors.AsType[*regularfile.GuardError](err)
	if !ok {
		return refusal(path, err)
	}
	return &store.RefusedError{
		Where: path, Reason: store.Denied, Found: fmt.Sprintf("%s is owned by uid %d and has mode %04o", wrong.Path, wrong.Owner, wrong.Mode.Perm()),
		Want: fmt.Sprintf("%s; this runs as uid %d", wrong.Want, os.Geteuid()), Err: err,
	}
}
