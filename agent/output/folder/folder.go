// Package folder opens folders of output, and says which files in them are an engine's. The keeper
// writes output by these rules, and a reader reads by them: a folder may be shared with other
// users, and these can put their own links and files there.
//
// The package is part of a small program: it imports the standard library and golang.org/x/sys
// alone. Any goroutine may call it.
package folder

import (
	"errors"
	"fmt"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"
)

// mostLinks is how many symbolic links a path may lead through, as the kernel has it.
const mostLinks = 40

// ErrIrregular says that something else than a regular file is there.
var ErrIrregular = errors.New("is no regular file")

// StrangerError says that a file, or a link on the way to a folder, belongs to another user.
type StrangerError struct {
	// Link is the path of the link; empty: it is the file.
	Link      string
	UID, Want uint32
}

func (e *StrangerError) Error() string {
	if e.Link != "" {
		return fmt.Sprintf("%s is a link of uid %d, who may change it at any time: want a path without links of other users than root and uid %d", e.Link, e.UID, e.Want)
	}
	return fmt.Sprintf("is a file of uid %d: want one of the engine's user, uid %d", e.UID, e.Want)
}

// Short names a link without the folder that it is in.
func (e *StrangerError) Short() string {
	short := *e
	if e.Link != "" {
		short.Link = path.Base(e.Link)
	}
	return short.Error()
}

// Check refuses a file that is not regular, or not of the user. The error is ErrIrregular or a
// *StrangerError.
func Check(stat *unix.Stat_t, uid uint32) error {
	switch {
	case stat.Mode&unix.S_IFMT != unix.S_IFREG:
		return ErrIrregular
	case stat.Uid != uid:
		return &StrangerError{UID: stat.Uid, Want: uid}
	}
	return nil
}

// Open opens a folder by its absolute path, with flags in addition to O_DIRECTORY. It follows links
// of root and of this process's user alone, as the kernel does in sticky folders
// (fs.protected_symlinks): another user's link may lead to the same folder today, and to another
// one tomorrow. The error is a *StrangerError or the kernel's.
func Open(name string, flags int) (int, error) {
	at, rest, links := "/", strings.Split(name, "/"), 0
	fd, err := unix.Open(at, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, err //nolint:wrapcheck // the caller names the folder
	}
	for len(rest) > 0 {
		element := rest[0]
		rest = rest[1:]
		if element == "" || element == "." {
			continue
		}
		next, target, err := step(fd, path.Join(at, element), element)
		switch {
		case err != nil:
			return -1, errors.Join(err, unix.Close(fd))
		case next >= 0:
			_ = unix.Close(fd) // nothing was written
			fd, at = next, path.Join(at, element)
			continue
		}
		if links++; links > mostLinks {
			return -1, errors.Join(unix.ELOOP, unix.Close(fd))
		}
		if path.IsAbs(target) {
			_ = unix.Close(fd) // as above
			if fd, err = unix.Open("/", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0); err != nil {
				return -1, err //nolint:wrapcheck // as above
			}
			at = "/"
		}
		rest = append(strings.Split(target, "/"), rest...)
	}
	if flags&unix.O_PATH != 0 {
		return fd, nil
	}
	again, err := unix.Openat(fd, ".", flags|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	_ = unix.Close(fd) // as above
	return again, err  //nolint:wrapcheck // as above
}

// step opens an element of a path: another folder, or the target of a link.
func step(dir int, name, element string) (fd int, target string, err error) {
	if fd, err = unix.Openat(dir, element, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0); err != nil {
		return -1, "", err //nolint:wrapcheck // the caller names the folder
	}
	var stat unix.Stat_t
	if err = unix.Fstat(fd, &stat); err != nil {
		return -1, "", errors.Join(err, unix.Close(fd))
	}
	switch stat.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		return fd, "", nil
	case unix.S_IFLNK:
	default:
		return -1, "", errors.Join(unix.ENOTDIR, unix.Close(fd))
	}
	defer unix.Close(fd)
	if own := uint32(os.Geteuid()); stat.Uid != 0 && stat.Uid != own { //nolint:gosec // a uid
		return -1, "", &StrangerError{name, stat.Uid, own}
	}
	text := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(fd, "", text)
	if err != nil {
		return -1, "", err //nolint:wrapcheck // as above
	}
	return -1, string(text[:n]), nil
}
