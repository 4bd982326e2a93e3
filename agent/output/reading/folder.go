package reading

import (
	"errors"
	"os"
	"path"

	"golang.org/x/sys/unix"

	outputfolder "github.com/bursar/bursar/agent/output/folder"
	"github.com/bursar/bursar/agent/output/offsets"
)

// folder is a folder of log files.
type folder struct {
	fd     int
	path   string
	stream string
	uid    uint32
}

func openFolder(name, stream string) (*folder, error) {
	fd, err := outputfolder.Open(name, unix.O_PATH)
	if stranger, ok := errors.AsType[*outputfolder.StrangerError](err); ok {
		return nil, wrong(Stranger, "%s: %v", name, stranger)
	}
	if err != nil {
		return nil, failed(name, err)
	}
	return &folder{fd, name, stream, uint32(os.Geteuid())}, nil //nolint:gosec // a uid
}

func (f *folder) close() { _ = unix.Close(f.fd) }

// removed reports whether the folder itself is gone.
func (f *folder) removed() bool {
	var stat unix.Stat_t
	return unix.Fstat(f.fd, &stat) == nil && stat.Nlink == 0
}

// open opens a file of the folder. A FIFO or a device of the name is not opened. The error is an
// *Error; with Gone there is nothing.
func (f *folder) open(name string) (int, unix.Stat_t, error) {
	if stat, err := f.look(name); err != nil {
		return -1, stat, err
	}
	// Nonblocking, for the case that it is a FIFO by now.
	fd, err := unix.Openat(f.fd, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, unix.Stat_t{}, failed(path.Join(f.path, name), err)
	}
	var stat unix.Stat_t
	if err = unix.Fstat(fd, &stat); err == nil {
		err = f.judge(name, &stat)
	}
	if err != nil {
		_ = unix.Close(fd)
		return -1, stat, err
	}
	return fd, stat, nil
}

// look looks at a file and opens nothing. The error is an *Error.
func (f *folder) look(name string) (unix.Stat_t, error) {
	var stat unix.Stat_t
	if err := unix.Fstatat(f.fd, name, &stat, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return stat, failed(path.Join(f.path, name), err)
	}
	return stat, f.judge(name, &stat)
}

func (f *folder) judge(name string, stat *unix.Stat_t) error {
	err := outputfolder.Check(stat, f.uid)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, outputfolder.ErrIrregular):
		return wrong(Irregular, "%s %v", path.Join(f.path, name), err)
	}
	return wrong(Stranger, "%s %v", path.Join(f.path, name), err)
}

// find opens the log file with an inode, under whichever name it has by now. The keeper moves
// files from newer to older names, so that a look in this order misses none. The error is an
// *Error; with Gone there is no such file.
func (f *folder) find(inode uint64, keep int) (int, error) {
	var newest error
	for i := range keep + 1 {
		name := offsets.Older(f.stream, i)
		stat, err := f.look(name)
		if i == 0 && is(err, Irregular) {
			newest = err
		}
		if stat.Ino != inode {
			continue
		}
		if err != nil {
			return -1, err
		}
		fd, stat, err := f.open(name)
		switch {
		case err == nil && stat.Ino == inode:
			return fd, nil
		case err == nil:
			_ = unix.Close(fd) // it was moved, to an older name
		case !is(err, Gone):
			return -1, err
		}
	}
	if newest != nil {
		return -1, newest
	}
	return -1, wrong(Gone, "%s: no file of inode %d", f.path, inode)
}

func is(err error, code Code) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.Code == code
}
