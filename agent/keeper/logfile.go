package keeper

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"

	"golang.org/x/sys/unix"
)

// logMode is the mode of a log file, also of one that is there already: only its user may read it,
// and may let others do so.
const logMode = 0o600

var errNoFile = errors.New("there is something else than a file")

// logFile is output that goes to a file until that is full, and then to the next. What cannot be
// written is dropped and counted: the engine must not wait for room on a disk. It is not safe for
// use by several goroutines.
type logFile struct {
	dir  int // its directory
	name string
	max  int64 // bytes
	keep int

	fd      int   // -1: not open
	size    int64 // of the file, in bytes
	done    bool  // it ends with a line, and takes no more
	dropped int64 // bytes
}

func newLogFile(dir int, name string, log Log) *logFile {
	return &logFile{dir: dir, name: name, max: log.MaxBytes, keep: log.Keep, fd: -1}
}

// open opens the file to append to it. It follows no link, and opens nothing but a file.
func (l *logFile) open() error {
	// Nonblocking, for the case that it is a FIFO: opening one would wait for its reader.
	flags := unix.O_WRONLY | unix.O_APPEND | unix.O_CREAT | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_NOCTTY | unix.O_CLOEXEC
	fd, err := unix.Openat(l.dir, l.name, flags, logMode)
	if err != nil {
		return fmt.Errorf("%s: %w", l.name, err)
	}
	var stat unix.Stat_t
	if err = unix.Fstat(fd, &stat); err == nil && stat.Mode&unix.S_IFMT != unix.S_IFREG {
		err = errNoFile
	}
	if err != nil {
		return errors.Join(fmt.Errorf("%s: %w", l.name, err), unix.Close(fd))
	}
	if stat.Mode&0o7777 != logMode {
		_ = unix.Fchmod(fd, logMode) // the mode of another user's file is that user's business
	}
	l.fd, l.size, l.done = fd, stat.Size, false
	return nil
}

// write takes all of p.
func (l *logFile) write(p []byte) {
	for len(p) > 0 {
		if !l.ready() {
			l.dropped += int64(len(p))
			return
		}
		part := p[:l.fitting(p)]
		written := writeAll(l.fd, part)
		l.size += int64(written)
		l.dropped += int64(len(part) - written)
		p = p[len(part):]
	}
}

// ready makes sure that there is a file with room.
func (l *logFile) ready() bool {
	if l.fd < 0 && l.open() != nil {
		return false
	}
	if !l.done && l.size < l.max {
		return true
	}
	return l.rotate() && l.open() == nil && l.size < l.max
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
		if err := unix.Renameat(l.dir, l.older(i-1), l.dir, l.older(i)); err != nil && !errors.Is(err, unix.ENOENT) {
			return false
		}
	}
	if l.keep > 0 {
		return true
	}
	err := unix.Unlinkat(l.dir, l.name, 0)
	return err == nil || errors.Is(err, unix.ENOENT)
}

// older is the name of the i-th older file; the file itself is the 0th.
func (l *logFile) older(i int) string {
	if i == 0 {
		return l.name
	}
	return l.name + "." + strconv.Itoa(i)
}

func (l *logFile) close() {
	if l.fd >= 0 {
		_ = unix.Close(l.fd) // what was written is the kernel's
		l.fd = -1
	}
}

// full reports whether there is no room on the disk. That may pass, so it is no reason not to
// start.
func full(err error) bool {
	return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT)
}
