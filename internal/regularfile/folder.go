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

// WantFolder describes a valid folder, for errors with CannotBeMade.
const WantFolder = "a folder that is there, or can be made by this user"

// CannotBeMade reports whether the error of making a folder is permanent, so that another path or
// other permissions are needed. A full or failing disk, and too many open files, may be gone at the
// next attempt.
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

// Transient reports whether the error of opening or making a file may go away by itself: the file,
// its folder or its file system may appear later, or become readable, writable or have space. A
// path that names an object of the wrong type stays wrong.
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

// Folder rejects the path of a folder that does not exist and cannot be made because the path, or a
// part of it, is something else. It makes nothing, and does not check permissions. The error names
// the object in the way.
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

// MakeFolders makes a folder and its missing parents. New folders get exactly this mode, whatever
// the process's umask is, because the mode decides about access by other users. Existing folders
// stay unchanged. Errors name the path.
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
			return nil // made by another process meanwhile
		}
		return err //nolint:wrapcheck // names the path
	}
	made, err := os.OpenFile(path, syscall.O_DIRECTORY|syscall.O_NOFOLLOW, 0) //nolint:gosec // just made
	if err != nil {
		return err //nolint:wrapcheck // names the path
	}
	return errors.Join(made.Chmod(mode), made.Close())
}
