package look

import (
	"bytes"
	"context"
	"errors"
	"os"

	"golang.org/x/sys/unix"

	"github.com/bursar/bursar/agent/keeper"
	"github.com/bursar/bursar/agent/output/folder"
)

const (
	// firstBytes is how much of the output that was there before the first look counts.
	firstBytes = 64 << 10
	// mostBytes is how much of a stream one look reads. If more was written since the last one,
	// only the last firstBytes count.
	mostBytes = 1 << 20
	chunk     = 32 << 10
)

// stream follows one of the files that a keeper writes the output of its engine to. A file that is
// full gets another name, and the keeper goes on in a new one.
type stream struct {
	path, name string
	lines      lines
	// start is where the engine's output begins. Earlier bytes are those of another engine.
	start keeper.LogStart

	opened bool // a file was open before
	fd     int  // -1: none is open
	inode  uint64
	offset int64
}

func indexLineBreak(p []byte) int { return bytes.IndexByte(p, '\n') }

// look reads new output, and reports whether a line matches. A last line without a line break is
// compared if nothing was new.
func (s *stream) look(ctx context.Context) (bool, error) {
	fresh := false
	for ctx.Err() == nil {
		if s.fd < 0 {
			there, found, err := s.begin(ctx)
			if !there || found || err != nil {
				return found, err
			}
		}
		replaced := s.replaced() // before the last read: the keeper writes no more to it then
		read, found, err := s.read(ctx)
		fresh = fresh || read
		if found || err != nil {
			return found, err
		}
		if !replaced {
			break
		}
		_ = unix.Close(s.fd) // it was only read
		s.fd = -1
	}
	return !fresh && len(s.lines.part) > 0 && s.lines.matches(), nil
}

// begin opens the file. If it is the first one, its end and that of the one before count.
func (s *stream) begin(ctx context.Context) (there, found bool, err error) {
	stat, err := s.open(s.path)
	if errors.Is(err, unix.ENOENT) {
		return false, false, nil
	}
	if err != nil {
		return false, false, err
	}
	if s.opened {
		return true, false, nil
	}
	s.opened = true
	if s.last(stat, firstBytes) || s.inode == s.start.Inode {
		return true, false, nil
	}
	current, inode := s.fd, s.inode
	before, err := s.open(s.path + ".1")
	if err == nil {
		s.last(before, firstBytes-stat.Size)
		_, found, err = s.read(ctx)
		_ = unix.Close(s.fd) // it was only read
	} else {
		err = nil // there is none
	}
	s.fd, s.inode, s.offset = current, inode, 0
	return true, found, err
}

// last leaves out all of a file that was just opened but the last bytes, and all that another
// engine has written. It reports whether the file has more than so many.
func (s *stream) last(stat unix.Stat_t, most int64) bool {
	if stat.Ino == s.start.Inode && stat.Size >= s.start.Size {
		s.offset = s.start.Size
	}
	if stat.Size-s.offset <= most {
		return false
	}
	s.skipTo(stat.Size - most)
	return true
}

// skipTo leaves out the bytes before a place in the file. The last one of them says whether a line
// begins there.
func (s *stream) skipTo(offset int64) {
	s.offset = offset - 1
	s.lines.skip()
}

// open opens a file from its beginning. It follows no link, and opens nothing but a regular file
// of this user.
func (s *stream) open(path string) (unix.Stat_t, error) {
	var stat unix.Stat_t
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ELOOP) {
		return stat, folder.ErrIrregular
	}
	if err != nil {
		return stat, err //nolint:wrapcheck // the caller names the stream
	}
	if err = unix.Fstat(fd, &stat); err == nil {
		err = folder.Check(&stat, uint32(os.Geteuid())) //nolint:gosec // a uid
	}
	if err != nil {
		return stat, errors.Join(err, unix.Close(fd))
	}
	s.fd, s.inode, s.offset = fd, stat.Ino, 0
	return stat, nil
}

// replaced reports whether the keeper has begun another file.
func (s *stream) replaced() bool {
	var stat unix.Stat_t
	err := unix.Fstatat(unix.AT_FDCWD, s.path, &stat, unix.AT_SYMLINK_NOFOLLOW)
	return err == nil && stat.Ino != s.inode
}

// read reads to the end of the file, and reports whether there was anything, and whether a line
// matches.
func (s *stream) read(ctx context.Context) (fresh, found bool, err error) {
	var stat unix.Stat_t
	if err := unix.Fstat(s.fd, &stat); err != nil {
		return false, false, err //nolint:wrapcheck // the caller names the stream
	}
	if stat.Size < s.offset { // it was truncated
		s.offset = 0
		s.lines.restart()
	}
	if stat.Size-s.offset > mostBytes {
		s.skipTo(stat.Size - firstBytes)
	}
	buffer := make([]byte, chunk)
	for left := int64(mostBytes); left > 0 && ctx.Err() == nil; {
		n, err := unix.Pread(s.fd, buffer, s.offset)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return fresh, false, err //nolint:wrapcheck // the caller names the stream
		case n <= 0:
			return fresh, false, nil
		}
		fresh = true
		s.offset += int64(n)
		left -= int64(n)
		if s.lines.write(buffer[:n]) {
			return true, true, nil
		}
	}
	return fresh, false, nil
}
