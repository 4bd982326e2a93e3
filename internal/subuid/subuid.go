// Package subuid says who owns a subordinate user id (subuid(5)). An owner of a range of ids can
// be some ten thousand users within user namespaces, and counts as one all the same.
package subuid

import (
	"errors"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/bursar/bursar/internal/regularfile"
)

// Path is the file of a machine's ranges. Ranges that a directory of users keeps (subid in
// nsswitch.conf) are not known.
const Path = "/etc/subuid"

// mostBytes bounds the file: some 40,000 ranges.
const mostBytes = 1 << 20

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

// Account is what a user counts on. A user with a name counts on themselves. An id without a name
// that is in a range of an ordinary user counts with all that user's subordinate ids as
// "subuid:OWNER". The owner is a name or a number, as the file has it. A missing file has no
// ranges. A file that cannot be read has the ranges that it had.
func (f *File) Account(uid uint32, name string) string {
	if name != strconv.FormatUint(uint64(uid), 10) {
		return name
	}
	return f.Owner(uid)
}

// Owner is what a user counts on whose name nobody has looked up: as Account of a user without a
// name.
func (f *File) Owner(uid uint32) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.readLocked()
	for _, s := range f.ranges {
		if id := uint64(uid); id >= s.first && id-s.first < s.count {
			return "subuid:" + s.owner
		}
	}
	return strconv.FormatUint(uint64(uid), 10)
}

// readLocked reads the file if it is not as it was.
func (f *File) readLocked() {
	if !f.failed.IsZero() && f.now().Sub(f.failed) < retryEvery {
		return
	}
	info, err := os.Stat(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		f.size, f.time, f.failed, f.ranges = 0, time.Time{}, time.Time{}, nil
		return
	}
	if err == nil && f.failed.IsZero() && f.size == info.Size() && f.time.Equal(info.ModTime()) {
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
	f.size, f.time, f.failed, f.ranges = info.Size(), info.ModTime(), time.Time{}, parse(content)
}

// parse leaves out what is no range, and those of root, of containers (podman) and of dockremap
// (Docker): they are given to others, a container each.
func parse(content []byte) (ranges []idRange) {
	for line := range strings.Lines(string(content)) {
		fields := strings.Split(strings.TrimSpace(line), ":")
		if len(fields) != 3 || fields[0] == "" || slices.Contains([]string{"root", "0", "containers", "dockremap"}, fields[0]) {
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
