package host

import (
	"bytes"
	"errors"
	"path/filepath"
	"strconv"
	"time"

	"github.com/bursar/bursar/internal/cgroupfs"
)

// subtreeEvery is how far looks through the process table are apart that are made because more
// cgroups are below an engine's than can be looked at, and its root has ended. One takes some 10 µs
// a process.
const subtreeEvery = 10 * time.Second

// subtree is the last such look: in which cgroup each process was, in the hierarchy that accounts
// for memory. It is made for all such engines at once.
type subtree struct {
	at      time.Time
	number  int // of looks
	members map[int32]string
	failed  bool // some could not be read
}

// leftBelow is how many processes there are in an engine's cgroup and below it at least, if a look
// at the cgroups was cut short and has found so many. It is 0 only if that is known: version 2 says
// so; with version 1 two looks through the process table in a row must have found none.
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

// isLeft reports whether a process has not ended and is the engine's, as one inside its cgroup.
func (m *Meter) isLeft(e *engine, pid int32) bool {
	got, err := m.readStat(&m.tracker.scratch, pid)
	switch {
	case errors.Is(err, ErrNoProcess) || err == nil && got.ended():
		return false
	case err != nil || !e.cgroup.given:
		return true // a process that cannot be seen has not ended
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

// cgroupIn is the cgroup of a process in a hierarchy. Of a process whose first thread has ended,
// which the kernel shows at the top, it is that of another thread.
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

// populated reports what version 2 says of a cgroup and all below it: whether a process is there
// that has not ended.
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
