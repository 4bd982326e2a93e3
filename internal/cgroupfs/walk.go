package cgroupfs

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// Walk is one pass over the processes in cgroups and below them. A user who may make cgroups can
// make as many as they like, one in the other. So a walk is bounded by their number, by their
// depth, and maybe by time.
type Walk struct {
	// Read reads a file, Children lists the names of the cgroups below the one that has this
	// directory.
	Read     func(file string) ([]byte, error)
	Children func(directory string) ([]string, error)
	// Left is how many more may be looked at below the present cgroup, Deepest how far down.
	Left, Deepest int
	// Late reports whether the walk must stop. nil: it never must.
	Late func() bool

	depth int // of the present one
}

// next reports whether one more may be looked at.
func (w *Walk) next() bool {
	if w.Left <= 0 || w.depth > w.Deepest || w.Late != nil && w.Late() {
		return false
	}
	w.Left--
	return true
}

// Members adds the processes in a cgroup and all below it. It reports whether it has looked at all
// of them. The errors are those of Read and Children, and ErrMalformed; what is gone (see Absent)
// is one for the first cgroup only.
func (w *Walk) Members(directory string, to []int32) (pids []int32, all bool, err error) {
	file := filepath.Join(directory, "cgroup.procs")
	data, err := w.Read(file)
	if err != nil {
		return to, false, err
	}
	for line := range bytes.Lines(data) {
		line = bytes.TrimSpace(line)
		if len(line) == 0 {
			continue
		}
		pid, err := strconv.ParseInt(string(line), 10, 32)
		if err != nil {
			return to, false, fmt.Errorf("%w %s line %q", ErrMalformed, file, line)
		}
		to = append(to, int32(pid))
	}
	children, err := w.Children(directory)
	if err != nil && !Absent(err) { // one that is gone has none below it
		return to, false, err
	}
	all = true
	w.depth++
	defer func() { w.depth-- }()
	for _, child := range children {
		if !w.next() {
			return to, false, nil
		}
		var whole bool
		to, whole, err = w.Members(filepath.Join(directory, child), to)
		if err != nil && !Absent(err) {
			return to, false, err
		}
		all = all && (whole || err != nil) // one that is gone has no members
	}
	return to, all, nil
}

// Children lists a cgroup's children. Most have none, which the link count of the directory tells
// without a listing: it is 2 and one for each of them. The errors are those of os.ReadDir.
func Children(directory string) ([]string, error) {
	if links, known := linkCount(directory); known && links == 2 {
		return nil, nil
	}
	entries, err := os.ReadDir(directory)
	if err != nil {
		return nil, err //nolint:wrapcheck // it names the directory
	}
	var names []string
	for _, entry := range entries {
		if entry.IsDir() {
			names = append(names, entry.Name())
		}
	}
	return names, nil
}

// linkCount is the number of links of a directory; false if it cannot be told.
func linkCount(directory string) (uint64, bool) {
	var status unix.Stat_t
	if err := unix.Stat(directory, &status); err != nil {
		return 0, false
	}
	return uint64(status.Nlink), true //nolint:unconvert // its type differs between architectures
}
