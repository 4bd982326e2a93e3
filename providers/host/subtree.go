package host

import (
	"bytes"
	"errors"
	"path/filepath"
	"strconv"
	"time"

	"github.com/bursar/bursar/internal/cgroupfs"
)

// subtreeEvery is the shortest time between two scans of the process table for leftBelow. Such a
// scan is needed if an engine has more cgroups than can be visited and its root has ended. It takes
// about 10 µs per process.
const subtreeEvery = 10 * time.Second

// subtree is the last such scan: the cgroup of each process in the memory hierarchy. One scan
// serves all such engines.
type subtree struct {
	at      time.Time
	number  int // of scans
	members map[int32]string
	failed  bool // some processes could not be read
}

// leftBelow returns a lower bound of the number of processes in an engine's cgroup and below, if
// the walk was incomplete; found is the number that it has found. The result is 0 only if that is
// certain: version 2 reports it; with version 1 two consecutive scans of the process table must
// have found none.
func (m *Meter) leftBelow(e *engine, found int, now time.Time) int {
	own := &e.cgroup
	if !own.memoryAt.V1 {
		populated, known := m.populated(*own.memoryAt)
		switch {
		case known && !populated:
			return 0
		case !known || !own.given:
			return max(1, found)
		}
	}
	if found > 0 {
		return found
	}
	look := &m.tracker.subtree
	if look.at.IsZero() || now.Sub(look.at) >= subtreeEvery || now.Before(look.at) {
		m.lookAtSubtrees(now)
	}
	for pid, name := range look.members {
		if _, inside := cgroupfs.Within(own.name, name); inside && m.isLeft(e, pid) {
			own.emptyIn = 0
			return 1
		}
	}
	switch {
	case look.failed:
		own.emptyIn = 0
	case own.emptyIn == 0:
		own.emptyIn = look.number
	}
	if own.emptyIn != 0 && own.emptyIn < look.number {
		return 0
	}
	return 1
}

// isLeft reports whether a process in the engine's cgroup is alive and is the engine's.
func (m *Meter) isLeft(e *engine, pid int32) bool {
	got, err := m.readStat(&m.tracker.scratch, pid)
	switch {
	case errors.Is(err, ErrNoProcess) || err == nil && got.ended():
		return false
	case err != nil || !e.cgroup.given:
		return true // a hidden process has not ended
	}
	_, is, _ := m.isOfEngine(e, pid)
	return is
}

func (m *Meter) lookAtSubtrees(now time.Time) {
	s, look := &m.tracker.scratch, &m.tracker.subtree
	*look = subtree{at: now, number: look.number + 1, members: map[int32]string{}}
	known, err := m.hierarchies(s)
	var list []int32
	if err == nil {
		list, err = pids(m.proc, nil)
	}
	if err != nil {
		look.failed = true
		return
	}
	main := known.MemoryController()
	for _, pid := range list {
		name, err := m.cgroupIn(s, main, pid)
		if name != "" {
			look.members[pid] = name
		}
		look.failed = look.failed || err != nil && !cgroupfs.Absent(err)
	}
}

// cgroupIn returns the cgroup of a process in a hierarchy. The kernel shows the root for a process
// whose first thread has ended; the result is then another thread's cgroup.
func (m *Meter) cgroupIn(s *scratch, controller string, pid int32) (string, error) {
	paths, err := m.cgroupPaths(s, strconv.Itoa(int(pid)))
	if err != nil || paths.Of(controller) != "/" {
		return paths.Of(controller), err
	}
	if got, err := m.readStat(s, pid); err == nil && got.headless() {
		thread, _ := m.liveThread(s, got)
		paths, err = m.cgroupPaths(s, strconv.Itoa(int(thread)))
		return paths.Of(controller), err
	}
	return "/", nil
}

// populated reports version 2's answer: whether a cgroup, or one below it, has a live process.
func (m *Meter) populated(at cgroupfs.Place) (populated, known bool) {
	data, err := m.tracker.scratch.read(filepath.Join(at.Directory(), "cgroup.events"))
	if err != nil {
		return false, false
	}
	for line := range bytes.Lines(data) {
		if value, is := bytes.CutPrefix(bytes.TrimSpace(line), []byte("populated ")); is {
			return string(value) != "0", true
		}
	}
	return false, false
}
