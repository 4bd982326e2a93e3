package reading

import (
	"errors"
	"io"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/bursar/bursar/agent/output/offsets"
)

// side is where the offsets of a stream come from: their file, or, without one, the log files.
type side struct {
	*offsets.Index

	in   *folder
	id   string
	fd   int   // -1: there is no file of offsets
	read int64 // bytes of it
	// newest is the newest log file that is known, if there is no file of offsets.
	newest uint64
	buffer []byte
}

func openSide(in *folder, id string) (*side, error) {
	s := &side{Index: &offsets.Index{}, in: in, id: id, fd: -1, buffer: make([]byte, 16<<10)}
	_, err := s.refresh()
	if err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// counted reports whether a keeper has written the offsets.
func (s *side) counted() bool { return s.fd >= 0 }

func (s *side) close() {
	if s.fd >= 0 {
		_ = unix.Close(s.fd)
		s.fd = -1
	}
}

// keep is how many older files are looked for.
func (s *side) keep() int {
	if s.counted() {
		return s.Keep
	}
	return offsets.MaxKeep
}

// refresh reads new offsets. It reports whether there are some.
func (s *side) refresh() (changed bool, err error) {
	if s.fd >= 0 {
		var stat unix.Stat_t
		if err := unix.Fstat(s.fd, &stat); err != nil {
			return false, failed(s.name(), err)
		}
		if stat.Nlink > 0 && stat.Size >= s.read {
			if stat.Size == s.read {
				return false, nil
			}
			return true, s.more()
		}
	}
	return s.reopen()
}

func (s *side) name() string { return path.Join(s.in.path, offsets.Name(s.in.stream)) }

// reopen reads the file anew: there was none, the keeper has replaced it, or it was cut.
func (s *side) reopen() (changed bool, err error) {
	fd, stat, err := s.in.open(offsets.Name(s.in.stream))
	switch {
	case is(err, Gone) && s.in.removed():
		return false, wrong(Gone, "%s was removed", s.in.path)
	case is(err, Gone) && s.fd >= 0:
		return false, nil // its user has removed it; the keeper makes it again when it needs it
	case is(err, Gone), err == nil && stat.Size == 0 && s.fd < 0:
		if err == nil {
			_ = unix.Close(fd) // the machine has crashed
		}
		return s.list()
	case err != nil:
		return false, err
	case s.newest != 0:
		_ = unix.Close(fd)
		return false, wrong(Uncounted, "%s: the engine's output is counted since a moment ago: read it again", s.in.path)
	}
	s.close()
	s.fd, s.read, s.Index = fd, 0, &offsets.Index{}
	return true, s.more()
}

// more reads on in the file.
func (s *side) more() error {
	for {
		n, err := unix.Pread(s.fd, s.buffer, s.read)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return failed(s.name(), err)
		case n == 0:
			return s.check()
		}
		if s.read += int64(n); s.read > offsets.MaxBytes {
			return wrong(Damaged, "%s has more than %d bytes: want what bursar-keeper has written; the log files next to it can be read as they are", s.name(), offsets.MaxBytes)
		}
		if err := s.Add(s.buffer[:n]); err != nil {
			return wrong(Damaged, "%s: %v; the log files next to it can be read as they are", s.name(), err)
		}
	}
}

func (s *side) check() error {
	switch {
	case s.ID != "" && s.ID != s.id:
		return wrong(Taken, "%s has the output of the engine of allocation %q by now", s.in.path, printable(s.ID))
	case s.Shared:
		return wrong(Taken, "%s: other programs write into %s too, so that its bytes cannot be counted", s.in.path, s.in.stream)
	}
	return nil
}

// locked reports whether the keeper lives, which has locked the file.
func (s *side) locked() bool {
	if err := unix.Flock(s.fd, unix.LOCK_SH|unix.LOCK_NB); err != nil {
		return errors.Is(err, unix.EWOULDBLOCK)
	}
	_ = unix.Flock(s.fd, unix.LOCK_UN) // it is open for reading
	// If the keeper has replaced the file, it has locked the new one.
	var stat unix.Stat_t
	return unix.Fstat(s.fd, &stat) == nil && stat.Nlink == 0
}

// list looks for new log files. A keeper of an older version has written them: the first byte of
// the oldest file counts as byte 0.
func (s *side) list() (changed bool, err error) {
	if s.newest != 0 {
		if stat, err := s.in.look(s.in.stream); err != nil && !is(err, Gone) || stat.Ino == s.newest {
			return false, err
		}
	}
	files, err := s.files()
	if err != nil || len(files) == 0 {
		return false, err
	}
	at, from := int64(0), 0
	if s.newest != 0 {
		for from < len(files) && files[from].Ino != s.newest {
			from++
		}
		if from == len(files) {
			return false, wrong(Uncounted, "%s: %s was removed while it was read, and how much was written since is not known", s.in.path, s.in.stream)
		}
		at = s.Segments[len(s.Segments)-1].Offset + files[from].Size
		from++
	}
	for _, file := range files[from:] {
		s.AddSegment(offsets.LogFile{Inode: file.Ino, First: at}, at, 0)
		at += file.Size
		s.newest = file.Ino
	}
	return from < len(files), nil
}

// files are all log files, the oldest first.
func (s *side) files() ([]unix.Stat_t, error) {
	var files []unix.Stat_t
	for i := range offsets.MaxKeep + 1 {
		stat, err := s.in.look(offsets.Older(s.in.stream, i))
		switch {
		case is(err, Gone):
			continue
		case err != nil && i == 0:
			return nil, err
		case err != nil:
			continue // older ones count if they are files
		}
		if len(files) == 0 || files[0].Ino != stat.Ino { // it may have been moved meanwhile
			files = append([]unix.Stat_t{stat}, files...)
		}
	}
	return files, nil
}

// printable replaces characters that a terminal would act on.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, text[:min(len(text), 64)])
}

// pread reads at a position; at the end of the file it reads nothing.
func pread(fd int, p []byte, at int64) (int, error) {
	for {
		n, err := unix.Pread(fd, p, at)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return 0, err //nolint:wrapcheck // the caller names the file
		}
		return max(0, n), nil
	}
}

var errNothing = io.ErrNoProgress
