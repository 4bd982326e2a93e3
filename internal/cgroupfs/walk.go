package cgroupfs

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// Walk is one pass over the processes in and below cgroups. A user who may make cgroups can nest
// any number of them. So the number of cgroups, their depth and, optionally, the time bound a walk.
type Walk struct {
	// Read reads a file. Children lists the names of the cgroups below the cgroup in this
	// directory.
	Read     func(file string) ([]byte, error)
	Children func(directory string) ([]string, error)
	// Left is the number of cgroups that may still be read below the first one. Deepest is the
	// greatest depth.
	Left, Deepest int
	// Late reports whether the walk must stop. Nil means that no time bounds it.
	Late func() bool

	depth int // of the current cgroup
}

// next reports whether the walk may read one more cgroup.
func (w *Walk) next() bool {
	if w.Left <= 0 || w.depth > w.Deepest || w.Late != nil && w.Late() {
		return false
	}
	w.Left--
	return true
}

// Members appends the processes in and below a cgroup to to. It reports whether it has read all of
// the cgroups. The errors are those of Read and Children, and ErrMalformed. A cgroup that is gone
// (see Absent) is an error only if it is the first one.
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
	if err != nil && !Absent(err) { // a cgroup that is gone has no children
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
		all = all && (whole || err != nil) // a cgroup that is gone has no members
	}
	return to, all, nil
}

// Children lists a cgroup's children. Most cgroups have none, and the link count of the directory
// shows this without a listing: it is 2 plus the number of children. The errors are those of
// os.ReadDir.
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

// linkCount returns the number of links of a directory; false if it is unknown.
func linkCount(directory string) (uint64, bool) {
	var status unix.Stat_t
	if err := unix.Stat(directory, &status); err != nil {
		return 0, false
	}
	return uint64(status.Nlink), true //nolint:unconvert // its type differs between architectures
}
