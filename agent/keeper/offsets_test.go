package keeper

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"github.com/bursar/bursar/agent/output/reading"
)

// lineBytes is the length of the lines that these tests write. The line at an offset is its
// number, so that every byte says where it belongs.
const lineBytes = 16

func numbered(from, count int64) []byte {
	var text bytes.Buffer
	for i := range count {
		fmt.Fprintf(&text, "%015d\n", from+i)
	}
	return text.Bytes()
}

// written is a stream that a test writes as a keeper does.
type written struct {
	tb  rapid.TB
	dir string
	log *logFile
	fd  int
}

func writes(tb rapid.TB, dir string, maxBytes int64, keep int) *written {
	tb.Helper()
	fd, err := unix.Open(dir, unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		tb.Fatal(err)
	}
	return &written{tb, dir, newLogFile(fd, "stdout", "a1", Log{Directory: dir, MaxBytes: maxBytes, Keep: keep}), fd}
}

func (w *written) write(lines int64) { w.log.write(numbered(w.log.offset/lineBytes, lines)) }

func (w *written) close() {
	w.log.end()
	_ = unix.Close(w.fd)
}

// replace puts another file in the place of the newest. If it had the inode of a removed file, it
// would be taken for that one until the keeper writes again.
func (w *written) replace(tb rapid.TB, content string) {
	tb.Helper()
	said, err := os.ReadFile(filepath.Join(w.dir, ".stdout.offsets"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		tb.Fatal(err)
	}
	var removed []string
	defer func() {
		for _, name := range removed {
			_ = os.Remove(name)
		}
	}()
	for {
		name := filepath.Join(w.dir, "other"+strconv.Itoa(len(removed)))
		var stat unix.Stat_t
		if err := errors.Join(os.WriteFile(name, []byte(content), 0o600), unix.Stat(name, &stat)); err != nil {
			tb.Fatal(err)
		}
		if bytes.Contains(said, fmt.Appendf(nil, " %d ", stat.Ino)) {
			removed = append(removed, name)
			continue
		}
		if err := os.Rename(name, filepath.Join(w.dir, "stdout")); err != nil {
			tb.Fatal(err)
		}
		return
	}
}

// live are the numbers of all lines that are on the disk.
func (w *written) live() map[int64]bool {
	w.tb.Helper()
	files, err := filepath.Glob(filepath.Join(w.dir, "stdout*"))
	if err != nil {
		w.tb.Fatal(err)
	}
	there := make(map[int64]bool)
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			w.tb.Fatal(err)
		}
		for line := range strings.Lines(string(content)) {
			if number, err := strconv.ParseInt(strings.TrimSuffix(line, "\n"), 10, 64); err == nil && len(line) == lineBytes {
				there[number] = true
			}
		}
	}
	return there
}

// follower is a reader that checks each byte.
type follower struct {
	tb   rapid.TB
	r    *reading.Reader
	at   int64
	gone int64
}

func follows(tb rapid.TB, w *written, from int64) *follower {
	tb.Helper()
	r, err := reading.Open(reading.Request{ID: "a1", Folder: w.dir, Stream: reading.Stdout, From: from, Follow: true})
	if err != nil {
		tb.Fatal(err)
	}
	return &follower{tb: tb, r: r, at: from}
}

// step reads a part. It reports whether there was one.
func (f *follower) step(buffer []byte, live func() map[int64]bool) (more, end bool) {
	f.tb.Helper()
	part, err := f.r.Next(buffer)
	switch {
	case errors.Is(err, io.EOF):
		return false, true
	case errors.Is(err, io.ErrNoProgress):
		return false, false
	case err != nil:
		f.tb.Fatal(err)
	case part.Offset != f.at || part.To <= part.Offset:
		f.tb.Fatalf("%d to %d: want it to begin at %d", part.Offset, part.To, f.at)
	}
	f.at = part.To
	if len(part.Data) == 0 {
		f.gone += part.To - part.Offset
		if live == nil {
			return true, false
		}
		there := live()
		for number := part.Offset / lineBytes; number*lineBytes < part.To; number++ {
			if there[number] {
				f.tb.Fatalf("a gap from %d to %d has line %d, which is there", part.Offset, part.To, number)
			}
		}
		return true, false
	}
	first := part.Offset / lineBytes
	want := numbered(first, int64(len(part.Data))/lineBytes+2)[part.Offset%lineBytes:]
	if !bytes.Equal(part.Data, want[:len(part.Data)]) {
		f.tb.Fatalf("bytes %d to %d are %.40q: want %.40q", part.Offset, part.To, part.Data, want)
	}
	return true, false
}

// Whatever is written, rotated, removed, cut and dropped, and whenever somebody reads: each byte
// comes once, in order, with its offset, or is in a gap, and then it is not on the disk.
func TestReadersGetWhatWasWrittenWithoutExactlyTheGaps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		dir, err := os.MkdirTemp("", "offsets") //nolint:usetesting // one for each run
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(dir)
		if rapid.Bool().Draw(t, "earlier output") {
			if err := os.WriteFile(filepath.Join(dir, "stdout"), []byte("0123456789abcd-\n"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		keep := rapid.IntRange(0, 4).Draw(t, "keep")
		w := writes(t, dir, lineBytes*rapid.Int64Range(1, 40).Draw(t, "lines in a file"), keep)
		defer w.close()
		var followers []*follower
		defer func() {
			for _, f := range followers {
				f.r.Close()
			}
		}()
		buffer := make([]byte, rapid.IntRange(1, 400).Draw(t, "buffer"))
		w.write(1) // else there is no stream yet
		t.Repeat(map[string]func(*rapid.T){
			"write": func(t *rapid.T) { w.write(rapid.Int64Range(1, 60).Draw(t, "lines")) },
			"drop":  func(t *rapid.T) { w.log.drop(lineBytes * rapid.IntRange(1, 20).Draw(t, "lines")) },
			"remove": func(t *rapid.T) {
				i := rapid.IntRange(0, keep).Draw(t, "file")
				name := filepath.Join(dir, "stdout")
				if i > 0 {
					name += "." + strconv.Itoa(i)
				}
				_ = os.Remove(name)
			},
			"cut": func(t *rapid.T) {
				name := filepath.Join(dir, "stdout")
				info, err := os.Stat(name)
				if err == nil && info.Size() > 0 {
					if err := os.Truncate(name, lineBytes*rapid.Int64Range(0, info.Size()/lineBytes-1).Draw(t, "lines")); err != nil {
						t.Fatal(err)
					}
				}
			},
			"replace": func(t *rapid.T) {
				w.replace(t, strings.Repeat("0123456789abcd-\n", rapid.IntRange(0, 3).Draw(t, "lines")))
			},
			"lose the offsets": func(*rapid.T) {
				_ = os.Remove(filepath.Join(dir, ".stdout.offsets"))
				w.write(1)
				w.log.drop(lineBytes)
				w.write(1)
			},
			"open": func(t *rapid.T) {
				if len(followers) < 4 {
					followers = append(followers, follows(t, w, rapid.Int64Range(0, w.log.offset).Draw(t, "from")))
				}
			},
			"read": func(t *rapid.T) {
				if len(followers) == 0 {
					return
				}
				f := followers[rapid.IntRange(0, len(followers)-1).Draw(t, "who")]
				f.tb = t
				for range rapid.IntRange(1, 100).Draw(t, "parts") {
					if more, _ := f.step(buffer, w.live); !more {
						return
					}
				}
			},
		})
		total := w.log.offset
		w.log.end()
		for _, f := range append(followers, follows(t, w, 0)) {
			f.tb = t
			for turns := 0; ; turns++ {
				more, end := f.step(buffer, w.live)
				if end {
					break
				}
				if !more || turns > 1_000_000 {
					said, _ := os.ReadFile(filepath.Join(dir, ".stdout.offsets"))
					t.Fatalf("the reader at %d sees no end: want %d; the offsets are %s", f.at, total, said)
				}
			}
			if f.at < total {
				t.Fatalf("the end is at %d: want %d", f.at, total)
			}
		}
	})
}

// A rotation at any moment of a read loses nothing that is still there.
func TestReadersKeepUpWithRotations(t *testing.T) {
	const lines = 2 << 20 / lineBytes * 12 // 24 MiB
	dir := t.TempDir()
	w := writes(t, dir, 128<<10, 2)
	w.write(1)
	var readers sync.WaitGroup
	for i, size := range []int{64 << 10, 16 << 10, 700} {
		f := follows(t, w, 0)
		readers.Go(func() {
			defer f.r.Close()
			buffer := make([]byte, size)
			for {
				more, end := f.step(buffer, nil)
				if end {
					break
				}
				if !more {
					runtime.Gosched()
				}
			}
			if f.at != lines*lineBytes {
				t.Errorf("reader %d ends at %d: want %d", i, f.at, lines*lineBytes)
			}
			t.Logf("reader %d: %d bytes were gone", i, f.gone)
		})
	}
	for left := int64(lines - 1); left > 0; {
		part := min(left, 2048)
		w.write(part)
		left -= part
	}
	w.close()
	readers.Wait()
}
