package offsets

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// stream is a Writer and its folder.
type stream struct {
	*Writer

	dir string
	now time.Time
}

func newStream(t *testing.T, maxBytes int64, keep int) *stream {
	t.Helper()
	dir := t.TempDir()
	fd, err := unix.Open(dir, unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(fd) })
	w := NewWriter(fd, "stdout", "a1", maxBytes, keep)
	t.Cleanup(w.close)
	return &stream{w, dir, time.Unix(1_000_000, 0)}
}

// log makes a log file, and returns its inode.
func (s *stream) log(t *testing.T) uint64 {
	t.Helper()
	path := filepath.Join(s.dir, "stdout")
	var stat unix.Stat_t
	if err := errors.Join(os.WriteFile(path, nil, 0o600), unix.Stat(path, &stat)); err != nil {
		t.Fatal(err)
	}
	return stat.Ino
}

func (s *stream) path() string { return filepath.Join(s.dir, Name("stdout")) }

// index is what a reader sees.
func (s *stream) index(t *testing.T) *Index {
	t.Helper()
	text, err := os.ReadFile(s.path())
	if err != nil {
		t.Fatal(err)
	}
	x := &Index{}
	if err := x.Add(text); err != nil {
		t.Fatalf("%v in %q", err, text)
	}
	return x
}

// However long an engine writes, its offsets stay small, and say when its bytes were written.
func TestOffsetsStaySmall(t *testing.T) {
	const maxBytes, part = 64 << 20, 32 << 10
	s := newStream(t, maxBytes, 3)
	offset := int64(0)
	began := s.now
	for file := range 40 {
		for i := 3; i > 0; i-- {
			_ = os.Rename(filepath.Join(s.dir, Older("stdout", i-1)), filepath.Join(s.dir, Older("stdout", i)))
		}
		inode := s.log(t)
		if err := s.File(inode, 0, offset, s.now); err != nil {
			t.Fatal(err)
		}
		for position := int64(0); position < maxBytes; position += part {
			if s.Wrote(inode, position, offset, s.now); file == 39 && position == maxBytes/2 {
				break
			}
			offset += part
			s.now = s.now.Add(time.Second)
		}
	}
	info, err := os.Stat(s.path())
	if err != nil || info.Size() > 256<<10 || info.Mode().Perm() != 0o600 {
		t.Errorf("%d bytes, %v, %v", info.Size(), info.Mode(), err)
	}
	if len(s.entries) > 4*maxMarks {
		t.Errorf("it remembers %d entries", len(s.entries))
	}
	x := s.index(t)
	if len(x.Segments) < 4 || x.Ended || x.ID != "a1" || x.Keep != 3 {
		t.Errorf("%d segments: %+v", len(x.Segments), x)
	}
	for back := range 1000 {
		since := s.now.Add(-time.Duration(back) * time.Second)
		written := int64(since.Sub(began)/time.Second) * part // the first byte since
		if got := x.Since(since); got > written || got < written-maxBytes/maxMarks-part {
			t.Fatalf("since %d s ago: %d, want a little less than %d", back, got, written)
		}
	}
	s.Close(offset, s.now)
	if x := s.index(t); !x.Ended || x.Total != offset {
		t.Errorf("ended %t, %d bytes: want %d", x.Ended, x.Total, offset)
	}
}

// After a pause the time is known to the byte.
func TestAPauseIsKnown(t *testing.T) {
	s := newStream(t, 64<<20, 3)
	inode := s.log(t)
	if err := s.File(inode, 0, 0, s.now); err != nil {
		t.Fatal(err)
	}
	for i := range 10 {
		s.Wrote(inode, int64(i)*10, int64(i)*10, s.now.Add(time.Duration(i)*time.Minute))
	}
	for i := range 10 {
		if got := s.index(t).Since(s.now.Add(time.Duration(i) * time.Minute)); got != int64(i)*10 {
			t.Errorf("after %d minutes: %d", i, got)
		}
	}
}

func TestOffsetsOfAnotherEngineAreLeftAlone(t *testing.T) {
	s := newStream(t, 100, 3)
	inode := s.log(t)
	if err := s.File(inode, 0, 0, s.now); err != nil {
		t.Fatal(err)
	}
	other := NewWriter(s.Writer.dir, "stdout", "a2", 100, 3)
	defer other.close()
	if err := other.File(inode, 5, 0, s.now); err != nil {
		t.Fatal(err)
	}
	for i := range int64(10) {
		if err := s.Jump(inode, 10*i, 100*i, s.now); err != nil {
			t.Fatal(err)
		}
	}
	if x := s.index(t); x.ID != "a2" || len(x.Segments) != 1 {
		t.Errorf("%+v", x)
	}
}

// What is in the way of the offsets keeps no output from being written.
func TestNothingIsInTheWay(t *testing.T) {
	elsewhere := filepath.Join(t.TempDir(), "elsewhere")
	if err := os.WriteFile(elsewhere, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, plant := range map[string]func(path string) error{
		"link":      func(path string) error { return os.Symlink(elsewhere, path) },
		"link next": func(path string) error { return os.Symlink(elsewhere, path+".new") },
		"FIFO":      func(path string) error { return unix.Mkfifo(path, 0o666) },
		"folder":    func(path string) error { return os.MkdirAll(filepath.Join(path, "full"), 0o700) },
		"next":      func(path string) error { return os.MkdirAll(filepath.Join(path+".new", "full"), 0o700) },
	} {
		s := newStream(t, 100, 3)
		if err := plant(s.path()); err != nil {
			t.Fatal(err)
		}
		inode := s.log(t)
		for i := range int64(5) {
			if err := errors.Join(s.File(inode, 0, i, s.now), s.Jump(inode, 1, i, s.now)); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		s.Close(9, s.now)
		if content, err := os.ReadFile(elsewhere); err != nil || string(content) != "precious" {
			t.Errorf("%s: %q, %v", name, content, err)
		}
	}
}

// The keeper's lock is on the file that has the name, also after it was replaced.
func TestTheFileIsLocked(t *testing.T) {
	s := newStream(t, 100, 0)
	for i := range int64(1000) {
		if err := s.File(s.log(t), 0, i, s.now); err != nil {
			t.Fatal(err)
		}
		if i%100 > 0 {
			continue
		}
		file, err := os.Open(s.path())
		if err != nil {
			t.Fatal(err)
		}
		if err := unix.Flock(int(file.Fd()), unix.LOCK_SH|unix.LOCK_NB); !errors.Is(err, unix.EWOULDBLOCK) {
			t.Errorf("after %d files: %v", i, err)
		}
		_ = file.Close()
	}
	if lines := strings.Count(read(t, s.path()), "\n"); lines > 2*slack {
		t.Errorf("%d lines", lines)
	}
	s.Close(1, s.now)
	file, err := os.Open(s.path())
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if err := unix.Flock(int(file.Fd()), unix.LOCK_SH|unix.LOCK_NB); err != nil {
		t.Errorf("at the end: %v", err)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// A file that somebody else writes into all the time has a bound of jumps.
func TestJumpsAreBounded(t *testing.T) {
	s := newStream(t, 1<<20, 3)
	inode := s.log(t)
	if err := s.File(inode, 0, 0, s.now); err != nil {
		t.Fatal(err)
	}
	for i := int64(1); ; i++ {
		err := s.Jump(inode, 10*i, 100*i, s.now)
		if errors.Is(err, ErrMany) {
			break
		}
		if err != nil || i > 2*maxJumps {
			t.Fatal(i, err)
		}
	}
	for i := range int64(1000) { // cut again and again
		if err := s.Jump(inode, 0, 10_000+i, s.now); err != nil {
			t.Fatal(err)
		}
	}
	s.Share(20_000, s.now)
	if x := s.index(t); !x.Shared {
		t.Errorf("%+v", x)
	}
}

// Any text is an error or an index whose answers are in order.
func FuzzIndex(f *testing.F) {
	f.Add("bursar-offsets 1 a1 3\nf 1 0 0 0\nm 1 5 5 1\nj 1 3 9 2\nf 1 0 12 3\ne 0 0 20 4\n", int64(7))
	f.Add("bursar-offsets 1 a1 0\nf 1 9 0 0\nj 1 9 0 0\nj 1 0 0 0\n", int64(0))
	f.Add("bursar-offsets 1 a1 1000\n\x00", int64(1)<<61)
	f.Fuzz(func(t *testing.T, text string, at int64) {
		x := &Index{}
		half := len(text) / 2
		if x.Add([]byte(text[:half])) != nil || x.Add([]byte(text[half:])) != nil {
			return
		}
		whole := &Index{}
		if err := whole.Add([]byte(text)); err != nil || len(whole.Segments) != len(x.Segments) {
			t.Fatalf("%v: it matters how the text comes", err)
		}
		s, next, found := x.At(at)
		if found && s.Offset > at || next >= 0 && found && next < s.Offset || !found && next >= 0 && next <= at && !x.Ended {
			t.Fatalf("at %d: %+v, next %d, %t", at, s, next, found)
		}
		for i := 1; i < len(x.Segments); i++ {
			if x.Segments[i].Offset < x.Segments[i-1].Offset {
				t.Fatal("not in order")
			}
		}
		_ = x.Since(time.UnixMilli(at))
	})
}
