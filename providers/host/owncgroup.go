package host

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/bursar/bursar/internal/cgroupfs"
)

// ownCgroup is the state of measuring an engine's own cgroup.
type ownCgroup struct {
	// name is the cgroup's name. moved: the engine was moved there. given: the caller did not
	// create it. resolved: memoryAt and cpuAt are valid.
	name     string
	moved    bool
	given    bool
	resolved bool
	// entered: other processes were seen in a given cgroup. proven are the engine's processes in it
	// at the last check, by pid.
	entered bool
	proven  map[int32]Orphan
	// user is the engine's user, from the caller.
	user *uint32
	// emptyIn is the number of the first of the consecutive looks that found no process in it or
	// below it; 0: none.
	emptyIn int
	// memoryAt and cpuAt are the places to read; nil: the cgroup does not account for it, so the
	// process tree must.
	memoryAt, cpuAt *cgroupfs.Place
	// memory and cpu: this call has measured them there.
	memory, cpu bool
	// partial: some cgroups below it were not visited.
	partial bool
	// shared is the charged shared memory at that time, in bytes, mapped or not.
	shared int64
	// ran is the CPU time of its processes at the last call, in microseconds; taken is the time of
	// that call.
	ran   int64
	taken time.Time
}

// countLiving counts the processes in an engine's cgroup, without its reaper. It skips zombies,
// which version 1 also lists. If processes may be missing from the list, the result is at least
// one, unless the cgroup is known to be empty.
func (m *Meter) countLiving(e *engine, now time.Time) (processes int) {
	for _, pid := range e.inside {
		got, err := m.readStat(&m.tracker.scratch, pid)
		if err == nil && (Reaper{pid, got.start}) == e.reaper {
			continue
		}
		if err == nil && !got.ended() || err != nil && !errors.Is(err, ErrNoProcess) {
			processes++
		}
	}
	if e.cgroup.partial {
		return m.leftBelow(e, processes, now)
	}
	return processes
}

// errTooManyCgroups concerns only processes; memory and CPU are known.
var errTooManyCgroups = fmt.Errorf("more cgroups are below it than can be looked at (%d, %d deep, all engines' within %v): processes in the others are not counted",
	mostCgroups, deepestCgroup, descentTime)

var errNotInCgroup = errors.New("the engine is not in this cgroup")

// measureCgroup measures the figures that the engine's cgroup provides, and records in e.cgroup
// which ones it has. The process tree provides the others; their errors are in usage.Err.
func (m *Meter) measureCgroup(e *engine, wanted Engine, now time.Time, usage *Usage) {
	own, name := &e.cgroup, wanted.Cgroup
	if own.name != name || own.moved != wanted.Moved || own.given != wanted.Given {
		*own = ownCgroup{name: name, moved: wanted.Moved, given: wanted.Given}
	}
	own.user = wanted.User
	own.memory, own.cpu = false, false
	e.lazy = 0
	e.inside = e.inside[:0]
	if name == "" {
		return
	}
	wasResolved := own.resolved
	usage.Err = m.readOwnCgroup(e, now, usage)
	if cgroupfs.Absent(usage.Err) && wasResolved {
		// It was removed. That is normal after the end of the engine; a second reading tells.
		usage.Err = m.readOwnCgroup(e, now, usage)
	}
	if wanted.Given {
		m.leaveOthersOut(e, usage)
	}
	if own.memory && e.reaper.PID != 0 && m.isLeftElsewhere(e, now) {
		own.memory, own.cpu, own.taken = false, false, time.Time{}
		*usage = Usage{ID: usage.ID, Err: usage.Err}
	}
}

// isLeftElsewhere reports whether the root has ended and the cgroup is empty, but the reaper
// exists. The reaper may have children in other cgroups, such as a daemon of another user that
// nobody has moved. The process table shows them.
func (m *Meter) isLeftElsewhere(e *engine, now time.Time) bool {
	root, err := m.readStat(&m.tracker.scratch, e.key.pid)
	ended := errors.Is(err, ErrNoProcess) || err == nil && (root.start != e.key.start || root.ended())
	return ended && m.isReaped(e, false) && m.countLiving(e, now) == 0
}

func (m *Meter) readOwnCgroup(e *engine, now time.Time, usage *Usage) error {
	own := &e.cgroup
	if !own.resolved {
		if err := m.resolve(e); err != nil {
			return fmt.Errorf("cgroup %s: %w", own.name, err)
		}
		own.resolved = true
	}
	err := errors.Join(m.cgroupMemory(e, usage), m.cgroupCPU(e, now, usage))
	if err != nil && !errors.Is(err, errTooManyCgroups) {
		own.resolved = false // It may have been recreated, or be elsewhere.
	}
	return err
}

func (m *Meter) cgroupMemory(e *engine, usage *Usage) error {
	own := &e.cgroup
	if own.memoryAt == nil {
		return nil
	}
	t := &m.tracker
	bytes, stat, err := t.scratch.readMemory(*own.memoryAt)
	var swapped int64
	if err == nil && !m.swapless.Load() {
		swapped, err = t.scratch.readSwapped(*own.memoryAt, stat)
	}
	all := false
	if err == nil {
		t.descent.Left = mostCgroups
		e.inside, all, err = t.descent.Members(own.memoryAt.Directory(), e.inside)
	}
	if err != nil {
		return fmt.Errorf("measuring memory: %w", err)
	}
	bytes = max(0, bytes-stat.Huge)
	usage.MemoryBytes = cgroupfs.Add(bytes, swapped)
	usage.UnreclaimableBytes = cgroupfs.Add(min(bytes, stat.Unreclaimable()), swapped)
	usage.SwappedBytes = swapped
	usage.CacheBytes = min(bytes, cgroupfs.Add(stat.File-stat.Lazy, stat.Slab))
	usage.MappedBytes = m.filesOf(e)
	usage.Processes = len(e.inside)
	if e.reaper.PID != 0 && slices.Contains(e.inside, e.reaper.PID) { // not of the engine
		usage.Processes--
	}
	own.memory, own.shared, own.partial = true, stat.Shared, !all
	if own.moved {
		usage.MarkBytes = t.scratch.readMark(*own.memoryAt)
	}
	e.lazy = stat.Lazy // the lists of anonymous pages exclude it
	if !all {
		usage.Processes = max(1, usage.Processes)
		return errTooManyCgroups
	}
	return nil
}

// filesOf returns the mapped file memory of an engine's main process. It changes little after the
// start, so it is read at the first, second, fourth … call.
func (m *Meter) filesOf(e *engine) int64 {
	if e.looks++; e.looks&(e.looks-1) == 0 {
		if got, err := m.readMapped(&m.tracker.scratch, e.key.pid); err == nil {
			e.files = max(e.files, got.file)
		}
	}
	return e.files
}

func (m *Meter) cgroupCPU(e *engine, now time.Time, usage *Usage) error {
	own := &e.cgroup
	if own.cpuAt == nil {
		return nil
	}
	ran, err := m.tracker.scratch.readCPU(*own.cpuAt)
	if err != nil {
		own.taken = time.Time{}
		return fmt.Errorf("measuring CPU: %w", err)
	}
	if elapsed := now.Sub(own.taken).Microseconds(); !own.taken.IsZero() && elapsed > 0 {
		usage.CPUMillis = int64(float64(max(0, ran-own.ran)) * 1000 / float64(elapsed))
	}
	switch {
	case (own.moved || own.given) && !own.taken.IsZero():
		e.cpuTime = cgroupfs.Add(e.cpuTime, max(0, ran-own.ran))
	case own.given: // other processes may have used it before
		if root, err := m.readStat(&m.tracker.scratch, e.key.pid); err == nil && root.start == e.key.start {
			e.cpuTime = max(e.cpuTime, microseconds(root.total()))
		}
	default:
		e.cpuTime = max(e.cpuTime, ran)
	}
	// The first reading is only the base for the next; for an engine that ran before, its processes
	// provide the figure.
	own.cpu = !own.moved || !own.taken.IsZero()
	own.ran, own.taken = ran, now
	return nil
}

// resolve finds the places to read the engine's cgroup. While the root process lives it must be in
// that cgroup, or below it: with version 1 each controller may have it elsewhere, and a cgroup of
// the same name may be another engine's.
func (m *Meter) resolve(e *engine) error {
	name := e.cgroup.name
	own, s := &e.cgroup, &m.tracker.scratch
	own.memoryAt, own.cpuAt = nil, nil
	if name == "/" {
		return fmt.Errorf("%w: the root has everybody in it", errNotInCgroup)
	}
	known, err := m.hierarchies(s)
	if err != nil {
		return err
	}
	paths, lives, err := m.rootCgroups(e)
	if err != nil {
		return err
	}
	main := known.MemoryController()
	if lives {
		if _, inside := cgroupfs.Within(name, paths[main]); !inside {
			return fmt.Errorf("%w but in %s", errNotInCgroup, paths[main])
		}
	}
	at, err := known.Find(main, name)
	switch {
	case cgroupfs.Absent(err) && !lives:
		return nil // Removed with its last process.
	case err != nil:
		return err
	}
	if _, err := s.readMemoryStat(at); err == nil {
		own.memoryAt = &at
	} else if !cgroupfs.Absent(err) {
		return err
	}
	for _, controller := range [...]string{cgroupfs.Unified, "cpuacct"} {
		if lives {
			if _, inside := cgroupfs.Within(name, paths[controller]); !inside {
				continue
			}
		}
		at, err := known.Find(controller, name)
		if err != nil {
			continue
		}
		if _, err := s.readCPU(at); err == nil {
			own.cpuAt = &at
			break
		}
	}
	return nil
}

// rootCgroups returns the root process's cgroups; false if it has ended.
func (m *Meter) rootCgroups(e *engine) (cgroupfs.Paths, bool, error) {
	s := &m.tracker.scratch
	root, err := m.readStat(s, e.key.pid)
	if errors.Is(err, ErrNoProcess) || err == nil && (root.start != e.key.start || root.ended()) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	thread := e.key.pid
	if root.headless() { // the kernel shows the root cgroup for an ended thread
		thread, _ = m.liveThread(s, root)
	}
	paths, err := m.cgroupPaths(s, strconv.Itoa(int(thread)))
	if cgroupfs.Absent(err) {
		return nil, false, nil
	}
	return paths, err == nil, err
}
