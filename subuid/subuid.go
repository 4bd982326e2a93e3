// Package subuid says whose a subordinate user id is (subuid(5)). Whoever has a range of them can be some ten thousand users within user
// namespaces of their own, and counts once all the same.
package subuid

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/bursar/bursar/regularfile"
)

// Path is the file of a machine's ranges. Ranges that a directory of users keeps (subid in nsswitch.conf) are not known.
const Path = "/etc/subuid"

// mostBytes bounds the file: some 40,000 ranges.
const mostBytes = 1 << 20

// File is a file of ranges, which is read again when it has changed. Any goroutine may use it.
type File struct {
	path string

	mu     sync.Mutex
	size   int64     // of what was read
	time   time.Time // likewise
	ranges []span
}

// span is the ids of one line.
type span struct {
	owner        string
	first, count uint64
}

// At is the file at a path.
func At(path string) *File { return &File{path: path} }

// Account is on whom a user counts: on themselves if they have a name, and else, if the id is in a range of an ordinary user, on all that user's
// subordinate ids as "subuid:OWNER". The owner is a name or a number, as the file has it. What cannot be read has no ranges.
func (f *File) Account(uid uint32, name string) string {
	if name != strconv.FormatUint(uint64(uid), 10) {
		return name
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.readLocked()
	for _, s := range f.ranges {
		if id := uint64(uid); id >= s.first && id-s.first < s.count {
			return "subuid:" + s.owner
		}
	}
	return name
}

// readLocked reads the file if it is not as it was.
func (f *File) readLocked() {
	info, err := os.Stat(f.path)
	if err != nil {
		f.size, f.time, f.ranges = 0, time.Time{}, nil
		return
	}
	if f.size == info.Size() && f.time.Equal(info.ModTime()) {
		return
	}
	f.ranges = nil
	if content, err := regularfile.Read(f.path, mostBytes); err == nil {
		f.ranges = parse(content)
	}
	f.size, f.time = info.Size(), info.ModTime()
}

// parse leaves out what is no range, and those of root, of containers (podman) and of dockremap (Docker): they are given to others, a
// container each.
func parse(content []byte) (ranges []span) {
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
			ranges = append(ranges, span{fields[0], first, count})
		}
	}
	return ranges
}
