package keeper

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bursar/bursar/agent/output/folder"
	"github.com/bursar/bursar/agent/output/offsets"
)

// logMode is the mode of a log file, also of one that is there already: only its user may read it,
// and may let others do so.
const logMode = 0o600

var (
	errLinked = errors.New("has another name too, maybe in a folder of another user: want a file with one")
	errMoving = errors.New("is replaced all the time")
)

// logFile is output that goes to a file until that is full, and then to the next. Bytes that
// cannot be written are dropped and counted: the engine must not wait for room on a disk. It is
// not safe for use by several goroutines.
type logFile struct {
	dir  int // its directory
	name string
	max  int64 // bytes
	keep int

	fd      int // -1: not open
	inode   uint64
	size    int64 // of the file, in bytes
	done    bool  // it ends with a line, and takes no more
	offset  int64 // of the next byte: how many the engine has written
	dropped int64 // bytes

	// offsets say where each byte is. known is how much they say of the file.
	offsets *offsets.Writer
	known   known
}

// known is how much the offsets of a log file say.
type known int

const (
	nothing   known = iota // the file was opened
	elsewhere              // the next byte is not where the offsets have it
	all
)

func newLogFile(dir int, name, id string, log Log) *logFile {
	return &logFile{dir: dir, name: name, max: log.MaxBytes, keep: log.Keep, fd: -1, offsets: offsets.NewWriter(dir, name, id, log.MaxBytes, log.Keep)}
}

// open opens the file to append to it, or makes it. It follows no link, and opens nothing but a
// regular file of this user.
func (l *logFile) open() error {
	fd, stat, err := l.openOrMake()
	if err != nil {
		return fmt.Errorf("%s: %w", l.name, err)
	}
	if stat.Mode&0o7777 != logMode {
		_ = unix.Fchmod(fd, logMode) // a file system may have modes of its own
	}
	l.fd, l.inode, l.size, l.done, l.known = fd, stat.Ino, stat.Size, false, nothing
	return nil
}

// openOrMake opens the file, which is regular, of this user, and without other names. The file that
// it makes has the user that the file system gives it.
func (l *logFile) openOrMake() (int, unix.Stat_t, error) {
	const flags = unix.O_WRONLY | unix.O_APPEND | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_NOCTTY | unix.O_CLOEXEC
	for range 8 {
		var stat unix.Stat_t
		err := unix.Fstatat(l.dir, l.name, &stat, unix.AT_SYMLINK_NOFOLLOW)
		missing := errors.Is(err, unix.ENOENT)
		more := 0
		if missing {
			more = unix.O_CREAT | unix.O_EXCL
		} else if err == nil {
			err = checkLog(&stat) // before the open, which may do something to a device
		}
		if err != nil && !missing {
			return -1, stat, err
		}
		fd, err := unix.Openat(l.dir, l.name, flags|more, logMode)
		if errors.Is(err, unix.EEXIST) || errors.Is(err, unix.ENOENT) && !missing {
			continue // another program has made or removed it
		}
		if err != nil {
			return -1, stat, err //nolint:wrapcheck // the caller names the file
		}
		if err = unix.Fstat(fd, &stat); err == nil && !missing {
			err = checkLog(&stat)
		}
		if err != nil {
			return -1, stat, errors.Join(err, unix.Close(fd))
		}
		return fd, stat, nil
	}
	return -1, unix.Stat_t{}, errMoving
}

// checkLog refuses a file that output must not be added to.
func checkLog(stat *unix.Stat_t) error {
	if err := folder.Check(stat, uint32(os.Geteuid())); err != nil { //nolint:gosec // a uid
		return err //nolint:wrapcheck // the caller names the file
	}
	if stat.Nlink > 1 {
		return errLinked
	}
	return nil
}

// checkOthers refuses a folder of another user in which a file of a third one stands where rotation
// or the offsets put theirs: these would replace it, or could not, and a reader would refuse it.
func (l *logFile) checkOthers() error {
	own := uint32(os.Geteuid()) //nolint:gosec // a uid
	var stat unix.Stat_t
	if err := unix.Fstat(l.dir, &stat); err != nil || stat.Uid == own {
		return err //nolint:wrapcheck // the caller names the folder
	}
	names := []string{offsets.Name(l.name), offsets.NewName(l.name)}
	for i := range l.keep {
		names = append(names, offsets.Older(l.name, i+1))
	}
	for _, name := range names {
		err := unix.Fstatat(l.dir, name, &stat, unix.AT_SYMLINK_NOFOLLOW)
		if err == nil && stat.Uid != own {
			return fmt.Errorf("%s: %w", name, &folder.StrangerError{UID: stat.Uid, Want: own})
		}
	}
	return nil
}

// write takes all of p.
func (l *logFile) write(p []byte) {
	for len(p) > 0 {
		if !l.ready() {
			l.drop(len(p))
			return
		}
		part := p[:l.fitting(p)]
		written := writeAll(l.fd, part)
		l.size += int64(written)
		l.offset += int64(written)
		l.drop(len(part) - written)
		p = p[len(part):]
	}
}

// drop counts bytes that were not written.
func (l *logFile) drop(count int) {
	if count > 0 {
		l.dropped += int64(count)
		l.offset += int64(count)
		l.moved()
	}
}

// moved notes that the next byte is not where the offsets have it.
func (l *logFile) moved() {
	if l.known == all {
		l.known = elsewhere
	}
}

// ready makes sure that there is a file with room, and that the offsets say where the next byte
// is.
func (l *logFile) ready() bool {
	if !l.look() {
		return false
	}
	if l.done || l.size >= l.max {
		if !l.rotate() || l.open() != nil || l.size >= l.max {
			return false
		}
	}
	return l.describe()
}

// look opens the file if it is not open or was removed, and notes if somebody has changed its
// size.
func (l *logFile) look() bool {
	var stat unix.Stat_t
	if l.fd >= 0 && unix.Fstat(l.fd, &stat) == nil {
		if stat.Nlink > 0 {
			if stat.Size != l.size {
				l.size = stat.Size
				l.moved()
			}
			return true
		}
		l.close()
	}
	return l.fd >= 0 || l.open() == nil
}

// describe has the offsets say where the next byte is. Bytes that nobody could find are not
// written.
func (l *logFile) describe() bool {
	now := time.Now()
	var err error
	switch l.known {
	case all:
		l.offsets.Wrote(l.inode, l.size, l.offset, now)
	case nothing:
		err = l.offsets.File(l.inode, l.size, l.offset, now)
	case elsewhere:
		if full(unix.Fallocate(l.fd, unix.FALLOC_FL_KEEP_SIZE, l.size, chunk)) {
			return false // the offsets would grow by a line for each attempt
		}
		err = l.offsets.Jump(l.inode, l.size, l.offset, now)
		if errors.Is(err, offsets.ErrMany) {
			return l.afterJumps(now)
		}
	}
	if err == nil {
		l.known = all
	}
	return err == nil
}

// afterJumps goes on after many jumps in a file: with the next file if a disk was full now and
// then, without offsets if somebody else writes into the file.
func (l *logFile) afterJumps(now time.Time) bool {
	if l.dropped == 0 {
		l.offsets.Share(l.offset, now)
		return true
	}
	if !l.rotate() || l.open() != nil {
		return false
	}
	return l.size < l.max && l.describe()
}

// fitting is how much of p goes into the file. A file that is nearly full ends with the last line
// that fits, so that no line is in two files, except a very long one.
func (l *logFile) fitting(p []byte) int {
	room := l.max - l.size
	if int64(len(p)) <= room-min(chunk, l.max/8) {
		return len(p)
	}
	fits := int(min(room, int64(len(p))))
	if lines := bytes.LastIndexByte(p[:fits], '\n') + 1; lines > 0 {
		l.done = true
		return lines
	}
	return fits
}

// writeAll returns how much could be written.
func writeAll(fd int, p []byte) int {
	written := 0
	for written < len(p) {
		n, err := unix.Write(fd, p[written:])
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil || n == 0:
			return written
		default:
			written += n
		}
	}
	return written
}

// rotate makes the file the newest of the older ones, and removes the oldest. It reports whether
// the name is free then.
func (l *logFile) rotate() bool {
	l.close()
	for i := l.keep; i > 0; i-- {
		if err := unix.Renameat(l.dir, offsets.Older(l.name, i-1), l.dir, offsets.Older(l.name, i)); err != nil && !errors.Is(err, unix.ENOENT) {
			return false
		}
	}
	if l.keep > 0 {
		return true
	}
	err := unix.Unlinkat(l.dir, l.name, 0)
	return err == nil || errors.Is(err, unix.ENOENT)
}

func (l *logFile) close() {
	if l.fd >= 0 {
		_ = unix.Close(l.fd) // the kernel has the written data
		l.fd = -1
	}
}

// end closes the file: the stream has ended.
func (l *logFile) end() {
	l.close()
	l.offsets.Close(l.offset, time.Now())
}

// full reports whether there is no room on the disk. That may pass, so it is no reason not to
// start.
func full(err error) bool {
	return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT)
}
