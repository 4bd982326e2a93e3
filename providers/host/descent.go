package host

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// An engine that may make cgroups below its own can make as many as it likes, one in the other. What a look at them may cost is
// bounded three times: memory and CPU time are the cgroup's own figures and stay exact, only processes can be missed.
const (
	// mostCgroups is how many below one engine's are looked at, deepestCgroup how far down. A container
	// engine in a service needs four levels.
	mostCgroups   = 256
	deepestCgroup = 16
	// descentTime is what one call may spend on them, for all engines. One takes some 15 µs.
	descentTime = 20 * time.Millisecond
)

// descent is one look at what is below the cgroups of engines.
type descent struct {
	now   func() time.Time
	until time.Time
	// left is how many more may be looked at below the present engine's, depth how far down this one is.
	left, depth int
}

func newDescent(now func() time.Time, most time.Duration) *descent {
	return &descent{now: now, until: now().Add(most), left: mostCgroups}
}

// next reports whether one more may be looked at.
func (d *descent) next() bool {
	if d.left == 0 || d.depth > deepestCgroup || d.now().After(d.until) {
		return false
	}
	d.left--
	return true
}

// cgroupMembers adds the processes in a cgroup and all below it. It reports whether it has looked at all of them.
func (s *scratch) cgroupMembers(directory string, to []int32, d *descent) (pids []int32, all bool, err error) {
	data, err := s.read(filepath.Join(directory, "cgroup.procs"))
	if err != nil {
		return to, false, err
	}
	for line := range bytes.Lines(data) {
		pid, err := strconv.ParseInt(string(bytes.TrimSpace(line)), 10, 32)
		if err != nil {
			return to, false, fmt.Errorf("%w %s/cgroup.procs line %q", errMalformed, directory, line)
		}
		to = append(to, int32(pid))
	}
	children, err := subdirectories(directory)
	if err != nil {
		return to, false, err
	}
	all = true
	d.depth++
	defer func() { d.depth-- }()
	for _, child := range children {
		if !d.next() {
			return to, false, nil
		}
		var whole bool
		to, whole, err = s.cgroupMembers(filepath.Join(directory, child), to, d)
		if err != nil && !absent(err) {
			return to, false, err
		}
		all = all && (whole || err != nil) // one that is gone has nobody
	}
	return to, all, nil
}

// subdirectories lists a cgroup's children. Most have none, which the link count of the directory tells without a
// listing: it is 2 and one for each of them.
func subdirectories(directory string) ([]string, error) {
	if links, known := linkCount(directory); known && links == 2 {
		return nil, nil
	}
	entries, err := os.ReadDir(directory)
	if err != nil {
		return nil, fmt.Errorf("listing cgroups: %w", err)
	}
	var names []string
	for _, entry := range entries {
		if entry.IsDir() {
			names = append(names, entry.Name())
		}
	}
	return names, nil
}
