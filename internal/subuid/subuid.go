// Package subuid names the payer of a subordinate user id (subuid(5)): the owner of its range.
// An owner of a range of ids can be some ten thousand users within user namespaces, and is charged
// as one all the same. It decides nothing about rights.
package subuid

import (
	"errors"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/bursar/bursar/internal/regularfile"
)

// Path is the file of a machine's ranges. Ranges that a directory of users keeps (subid in
// nsswitch.conf) are not known.
const Path = "/etc/subuid"

// mostBytes bounds the file: 65,536 ranges of the usual size, which is as many as there are without
// overlaps, in lines of 64 bytes. A larger file is not read.
const mostBytes = 4 << 20

// longestOwner is the longest name of an owner, in bytes.
const longestOwner = 255

// retryEvery is how often a file is tried again that could not be read, such as for want of
// descriptors: each call may come to look.
const retryEvery = time.Second

// File is a file of ranges, which is read again when it has changed. Any goroutine may use it.
type File struct {
	path string
	now  func() time.Time

	mu     sync.Mutex
	size   int64     // of what was read; guarded by mu
	time   time.Time // likewise
	inode  uint64    // likewise
	failed time.Time // when it could not be read; zero: it was read; guarded by mu
	ranges []idRange // guarded by mu
}

// idRange is the ids of one line.
type idRange struct {
	owner        string
	first, count uint64
}

// New is the file at a path; now tells when it is time to try again.
func New(path string, now func() time.Time) *File { return &File{path: path, now: now} }

// readLocked reads the file if it is not as it was.
func (f *File) readLocked() {
	if !f.failed.IsZero() && f.now().Sub(f.failed) < retryEvery {
		return
	}
	info, err := os.Stat(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		f.size, f.time, f.inode, f.failed, f.ranges = 0, time.Time{}, 0, time.Time{}, nil
		return
	}
	if err == nil && f.failed.IsZero() && f.size == info.Size() && f.time.Equal(info.ModTime()) && f.inode == inodeOf(info) {
		return
	}
	var content []byte
	if err == nil {
		content, err = regularfile.Read(f.path, mostBytes)
	}
	if err != nil {
		f.failed = f.now()
		return
	}
	f.size, f.time, f.inode, f.failed, f.ranges = info.Size(), info.ModTime(), inodeOf(info), time.Time{}, parse(content)
}

func inodeOf(info fs.FileInfo) uint64 {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return stat.Ino
	}
	return 0
}

// parse leaves out lines that are no range, and ranges of root, of containers (podman) and of
// dockremap (Docker): they are given to others, a container each.
func parse(content []byte) (ranges []idRange) {
	for line := range strings.Lines(string(content)) {
		fields := strings.Split(strings.TrimSpace(line), ":")
		if len(fields) != 3 || !isOwner(fields[0]) || slices.Contains([]string{"root", "0", "containers", "dockremap"}, fields[0]) {
			continue
		}
		first, err := strconv.ParseUint(fields[1], 10, 32)
		if err != nil {
			continue
		}
		if count, err := strconv.ParseUint(fields[2], 10, 33); err == nil && first > 0 {
			ranges = append(ranges, idRange{fields[0], first, count})
		}
	}
	return ranges
}

// isOwner reports whether a text can be the name of a user or a uid. Other texts would make the
// requests of their ids fail: no label can have them, or they stand for others than users ("*",
// "@h1").
func isOwner(text string) bool {
	return text != "" && len(text) <= longestOwner && utf8.ValidString(text) && !strings.ContainsAny(text[:1], "#@*") &&
		!strings.ContainsFunc(text, func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) })
}
