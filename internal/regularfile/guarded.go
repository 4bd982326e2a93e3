package regularfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// maxLinks is the largest number of symbolic links in a path, as in the kernel
// (path_resolution(7)).
const maxLinks = 40

// GuardError reports that another user could change or replace a file or folder that a process
// relies on.
type GuardError struct {
	Path  string // the file or folder of that user
	Owner uint32
	Mode  fs.FileMode
	Want  string
}

func (e *GuardError) Error() string {
	return fmt.Sprintf("%s is owned by uid %d and has mode %04o: want %s", e.Path, e.Owner, e.Mode.Perm(), e.Want)
}

// Guarded rejects a folder that other users could change or replace, because another user owns it
// or may write to it. For root it also checks the path: root must own every folder above it and
// every link on the way, and no other user may write to any of them, unless the sticky bit protects
// root's entries. A path that does not exist yet is not checked. The error is a *GuardError, or
// reports a failed check.
func Guarded(path string, uid uint32) error { return guardedExcept(path, uid, "") }

// GuardedIn is Guarded with one exception: system is a folder that a system group may write to,
// such as /var/log on some distributions. It may be the folder itself or one above it. The members
// of that group are trusted.
func GuardedIn(system, path string, uid uint32) error { return guardedExcept(path, uid, system) }

func guardedExcept(path string, uid uint32, system string) error {
	err := walk(path, func(at string, info fs.FileInfo, last bool) error {
		owner, _ := Owners(info)
		if at == system && owner == 0 && info.IsDir() && info.Mode().Perm()&0o002 == 0 {
			return nil
		}
		return guarded(at, info, uid, last)
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// walk calls look for every folder and link on the way to a path, and last for the target. It stops
// at the first error, including its own.
func walk(path string, look func(at string, info fs.FileInfo, last bool) error) error {
	path, err := filepath.Abs(path)
	if err != nil {
		return err //nolint:wrapcheck // names the current folder
	}
	at, left, links := "/", parts(path), 0
	for {
		info, err := os.Lstat(at)
		if err != nil {
			return err //nolint:wrapcheck // names the path
		}
		link := info.Mode().Type() == fs.ModeSymlink
		if err := look(at, info, len(left) == 0 && !link); err != nil {
			return err
		}
		if link {
			if links++; links > maxLinks {
				return &fs.PathError{Op: "stat", Path: path, Err: syscall.ELOOP}
			}
			target, err := os.Readlink(at)
			if err != nil {
				return err //nolint:wrapcheck // names the path
			}
			left = append(parts(target), left...)
			if at = filepath.Dir(at); filepath.IsAbs(target) {
				at = "/"
			}
		}
		if len(left) == 0 {
			return nil
		}
		at, left = filepath.Join(at, left[0]), left[1:]
	}
}

func parts(path string) []string {
	return strings.FieldsFunc(path, func(r rune) bool { return r == '/' })
}

// guarded checks one step on the way to a folder, or the folder itself if it is the last step.
func guarded(path string, info fs.FileInfo, uid uint32, last bool) error {
	owner, group := Owners(info)
	wrong := &GuardError{Path: path, Owner: owner, Mode: info.Mode()}
	switch {
	case last && owner != uid:
		wrong.Want = fmt.Sprintf("a folder of uid %d", uid)
		return wrong
	case last && writable(info, uid, group):
		wrong.Want = "that nobody else may write to it"
		return wrong
	case last || uid != 0: // other users may share their own folders as they like
		return nil
	case owner != 0:
		wrong.Want = "that everything on the way to a folder of root's is root's, too: its owner could put another one there"
		return wrong
	case info.IsDir() && info.Mode()&fs.ModeSticky == 0 && writable(info, uid, group):
		wrong.Want = "that nobody else may write to a folder on the way to one of root's: they could put another one there"
		return wrong
	}
	return nil
}

// GuardedFile rejects a file that a user other than uid owns or may write to. A missing file is
// fine. The error is a *GuardError, or reports a failed check.
func GuardedFile(path string, uid uint32) error {
	// the link, and its target
	for _, look := range []func(string) (fs.FileInfo, error){os.Lstat, os.Stat} {
		info, err := look(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err //nolint:wrapcheck // names the path
		}
		owner, group := Owners(info)
		link := info.Mode().Type() == fs.ModeSymlink
		switch {
		case owner != uid:
			return &GuardError{path, owner, info.Mode(), fmt.Sprintf("a file of uid %d", uid)}
		case !link && writable(info, uid, group):
			return &GuardError{path, owner, info.Mode(), "that nobody else may write to it"}
		}
	}
	return nil
}

// GuardedLink rejects a symbolic link that neither uid nor root owns, because its owner chooses the
// target. Anything else, including a missing file, is fine. The error is a *GuardError, or reports
// a failed check.
func GuardedLink(path string, uid uint32) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err //nolint:wrapcheck // names the path
	}
	if owner, _ := Owners(info); info.Mode().Type() == fs.ModeSymlink && owner != uid && owner != 0 {
		return &GuardError{path, owner, info.Mode(), fmt.Sprintf("no symbolic link but of uid %d or root", uid)}
	}
	return nil
}

// Owners returns the user and the group of a file.
func Owners(info fs.FileInfo) (uid, gid uint32) {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return s.Uid, s.Gid
	}
	return 0, 0
}

// writable reports whether other users may write to a file. For root's files, a group other than
// root's counts as other users; the groups of other users are often private.
func writable(info fs.FileInfo, uid, group uint32) bool {
	mode := info.Mode().Perm()
	return mode&0o002 != 0 || mode&0o020 != 0 && uid == 0 && group != 0
}
