package offsets

import (
	"errors"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// mode is that of the log files.
	mode = 0o600
	// maxJumps bounds the Jumps of a file.
	maxJumps = 64
	// maxMarks is how many Marks a file has at most that follow from the bytes written, and how
	// many that follow a pause.
	maxMarks = 256
	// allMarks is how many Marks all older files have together.
	allMarks = 1024
	// pause is how long nothing was written before a Mark that does not wait for enough bytes.
	pause = 10 * time.Second
	// minSpacing is how many bytes are between two Marks at least, unless there was a pause.
	minSpacing = 4 << 10
	// slack is how many lines the file may have beyond twice the ones that are needed.
	slack = 128
	// reserve is allocated for the file beforehand, in bytes: the disk may be full later.
	reserve = 8 << 10
)

// ErrMany says that a file has so many Jumps that it should take no more output.
var ErrMany = errors.New("the file has too many jumps")

// Writer writes the offsets of one stream. After an error the entry was not stored, and the caller
// must not write the bytes that it describes; the only such error is a full disk. If the file
// cannot be written for another reason, the Writer gives up and every call succeeds: readers then
// see the log files alone.
type Writer struct {
	dir          int
	stream, id   string
	keep         int
	spacing      int64
	fd           int // -1: not open
	size         int64
	lines        int // in the file, without its header
	entries      []Entry
	jumps, paced int   // of the newest file: Jumps, and Marks that followed a pause
	marked       int64 // the offset of the newest entry
	wrote        time.Time
	gaveUp       bool
}

// NewWriter returns the Writer of a stream in a directory. maxBytes and keep are those of the log
// files. The first entry makes the file.
func NewWriter(dir int, stream, id string, maxBytes int64, keep int) *Writer {
	return &Writer{dir: dir, stream: stream, id: id, keep: keep, spacing: max(minSpacing, maxBytes/maxMarks), fd: -1}
}

// File says that the output goes on in another file.
func (w *Writer) File(inode uint64, position, offset int64, now time.Time) error {
	return w.add(Entry{File, inode, position, offset, now})
}

// Jump says that the output goes on in the same file, after a gap, or at another position because
// somebody has changed the file.
func (w *Writer) Jump(inode uint64, position, offset int64, now time.Time) error {
	kind, jumps := Jump, 0
	for _, e := range w.entries {
		switch {
		case e.Inode != inode || e.Position >= position && e.Kind != File:
		case e.Kind == Jump:
			jumps++
		case e.Kind == File && e.Position >= position: // nothing of it is left
			kind = File
		}
	}
	if w.jumps = jumps; w.jumps >= maxJumps && !w.gaveUp {
		return ErrMany
	}
	return w.add(Entry{kind, inode, position, offset, now})
}

// Wrote is to be called before output is written where the one before has ended. It marks the time
// now and then.
func (w *Writer) Wrote(inode uint64, position, offset int64, now time.Time) {
	paused := now.Sub(w.wrote) >= pause && w.paced < maxMarks
	w.wrote = now
	if !paused && offset-w.marked < w.spacing || offset == w.marked {
		return
	}
	if w.add(Entry{Mark, inode, position, offset, now}) == nil && paused {
		w.paced++
	}
}

// Share says that other programs write into the files. The Writer writes nothing more.
func (w *Writer) Share(offset int64, now time.Time) {
	_ = w.add(Entry{Shared, 0, 0, offset, now}) // a reader finds bytes of others, as everybody does
	w.gaveUp = true
}

// Close says that the stream has ended.
func (w *Writer) Close(offset int64, now time.Time) {
	if len(w.entries) > 0 || offset > 0 {
		_ = w.add(Entry{End, 0, 0, offset, now}) // readers see that the lock is gone
	}
	w.close()
}

func (w *Writer) close() {
	if w.fd >= 0 {
		_ = unix.Close(w.fd) // what was written is the kernel's
		w.fd = -1
	}
}

func (w *Writer) add(e Entry) error {
	if w.gaveUp {
		return nil
	}
	err := w.store(e)
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
		return err
	}
	if err != nil {
		w.gaveUp = true
		w.close()
		return nil //nolint:nilerr // see Writer
	}
	w.note(e)
	return nil
}

var errReplaced = errors.New("another engine has replaced it")

// store writes an entry to the file.
func (w *Writer) store(e Entry) error {
	if w.fd >= 0 {
		var stat, other unix.Stat_t
		if err := unix.Fstat(w.fd, &stat); err != nil {
			return err //nolint:wrapcheck // add decides by it
		}
		switch {
		case stat.Nlink > 0 && stat.Size == w.size && w.lines <= 2*len(w.entries)+slack:
			return w.append(e)
		case stat.Nlink == 0 && !errors.Is(unix.Fstatat(w.dir, Name(w.stream), &other, unix.AT_SYMLINK_NOFOLLOW), unix.ENOENT):
			return errReplaced
		}
	}
	err := w.replace(e)
	if err != nil && w.fd >= 0 {
		return w.append(e)
	}
	return err
}

func (w *Writer) append(e Entry) error {
	line := e.line()
	if err := writeAll(w.fd, line); err != nil {
		_ = unix.Ftruncate(w.fd, w.size) // half a line must not stand before the next one
		return err
	}
	w.size += int64(len(line))
	w.lines++
	return nil
}

// replace makes the file anew, with the entries that are needed and another one.
func (w *Writer) replace(e Entry) error {
	next := NewName(w.stream)
	flags := unix.O_WRONLY | unix.O_APPEND | unix.O_CREAT | unix.O_EXCL | unix.O_NOFOLLOW | unix.O_CLOEXEC
	fd, err := unix.Openat(w.dir, next, flags, mode)
	if errors.Is(err, unix.EEXIST) && unix.Unlinkat(w.dir, next, 0) == nil {
		fd, err = unix.Openat(w.dir, next, flags, mode)
	}
	if err != nil {
		return err //nolint:wrapcheck // add decides by it
	}
	_ = unix.Fallocate(fd, unix.FALLOC_FL_KEEP_SIZE, 0, reserve) // a courtesy
	_ = unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB)                // without it, readers wait for the agent's word
	var text strings.Builder
	text.WriteString(header(w.id, w.keep))
	for _, known := range w.entries {
		text.WriteString(known.line())
	}
	text.WriteString(e.line())
	if err = writeAll(fd, text.String()); err == nil {
		err = unix.Renameat(w.dir, next, w.dir, Name(w.stream))
	}
	if err != nil {
		_, _ = unix.Unlinkat(w.dir, next, 0), unix.Close(fd) // the error counts
		return err
	}
	w.close()
	w.fd, w.size, w.lines = fd, int64(text.Len()), len(w.entries)+1
	return nil
}

func writeAll(fd int, text string) error {
	for len(text) > 0 {
		n, err := unix.Write(fd, []byte(text))
		if err != nil && !errors.Is(err, unix.EINTR) {
			return err //nolint:wrapcheck // add decides by it
		}
		text = text[max(0, n):]
	}
	return nil
}

// note remembers an entry that was stored, and forgets those that it makes needless.
func (w *Writer) note(e Entry) {
	switch e.Kind {
	case File:
		there := w.there()
		w.entries = slices.DeleteFunc(w.entries, func(old Entry) bool { return old.Inode == e.Inode || !there[old.Inode] })
		w.thin(e.Inode)
		w.jumps, w.paced = 0, 0
	case Jump:
		w.entries = slices.DeleteFunc(w.entries, func(old Entry) bool {
			return old.Inode == e.Inode && old.Kind != File && old.Position >= e.Position
		})
	case Mark, End, Shared:
	}
	w.entries = append(w.entries, e)
	w.marked = e.Offset
	w.wrote = e.Time
}

// there are the inodes of the log files that are there. Rotation removes one, and so does the
// user.
func (w *Writer) there() map[uint64]bool {
	there := make(map[uint64]bool)
	for i := range w.keep + 1 {
		var stat unix.Stat_t
		if unix.Fstatat(w.dir, Older(w.stream, i), &stat, unix.AT_SYMLINK_NOFOLLOW) == nil {
			there[stat.Ino] = true
		}
	}
	return there
}

// thin removes Marks of all files but one, until each has its share.
func (w *Writer) thin(but uint64) {
	share := max(4, allMarks/(w.keep+1))
	count := make(map[uint64]int)
	for _, e := range w.entries {
		if e.Kind == Mark {
			count[e.Inode]++
		}
	}
	seen := make(map[uint64]int)
	w.entries = slices.DeleteFunc(w.entries, func(e Entry) bool {
		if e.Kind != Mark || e.Inode == but || count[e.Inode] <= share {
			return false
		}
		at := seen[e.Inode]
		seen[e.Inode]++
		return at*share/count[e.Inode] == (at-1)*share/count[e.Inode] && at > 0
	})
}
