package regularfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
)

// WantFolder says what would be right if CannotBeMade.
const WantFolder = "a folder that is there, or can be made by this user"

// CannotBeMade reports whether time alone does not mend an error of making a folder, so that
// another path or other rights are needed. A disk that is full or fails, and too many open files,
// may be gone at the next attempt.
func CannotBeMade(err error) bool {
	for _, lasting := range []error{
		fs.ErrNotExist, fs.ErrPermission, syscall.ENOTDIR, syscall.EROFS, syscall.ELOOP, syscall.ENAMETOOLONG, syscall.EINVAL,
	} {
		if errors.Is(err, lasting) {
			return true
		}
	}
	return false
}

// Transient reports whether time may mend an error of opening or making a file: it, its folder or
// its file system may be there later, or be readable, writable or have space by then. A path that
// names something else does not become right by itself.
func Transient(err error) bool {
	if _, hangs := errors.AsType[*HangError](err); hangs {
		return true
	}
	var errno syscall.Errno
	if !errors.As(err, &errno) {
		return errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission)
	}
	return !slices.Contains([]syscall.Errno{syscall.EISDIR, syscall.ENOTDIR, syscall.ELOOP, syscall.ENAMETOOLONG, syscall.EINVAL}, errno)
}

// Folder refuses the path of a folder that does not exist and cannot be made, because it or a part
// of its path is something else. It makes nothing, and does not check permissions. The error names
// what is in the way.
func Folder(path string) error {
	path, err := filepath.Abs(path)
	if err != nil {
		return err //nolint:wrapcheck // names the current folder
	}
	for {
		if info, err := os.Stat(path); err == nil {
			if !info.IsDir() {
				return fmt.Errorf("%s is no directory", path)
			}
			return nil
		}
		above := filepath.Dir(path)
		if above == path {
			return nil
		}
		path = above
	}
}

// MakeFolders makes a folder, with missing ones above it. What it makes has the mode, whatever the
// process's umask, because the mode says whether other users may get there. Existing folders stay
// as they are. Errors name the path.
func MakeFolders(path string, mode fs.FileMode) error {
	if info, err := os.Stat(path); err == nil {
		if !info.IsDir() {
			return &fs.PathError{Op: "mkdir", Path: path, Err: syscall.ENOTDIR}
		}
		return nil
	}
	if above := filepath.Dir(path); above != path {
		if err := MakeFolders(above, mode); err != nil {
			return err
		}
	}
	if err := os.Mkdir(path, mode); err != nil {
		if info, statErr := os.Stat(path); errors.Is(err, fs.ErrExist) && statErr == nil && info.IsDir() {
			return nil // it was made meanwhile
		}
		return err //nolint:wrapcheck // names the path
	}
	made, err := os.OpenFile(path, syscall.O_DIRECTORY|syscall.O_NOFOLLOW, 0) //nolint:gosec // just made
	if err != nil {
		return err //nolint:wrapcheck // names the path
	}
	return errors.Join(made.Chmod(mode), made.Close())
}
