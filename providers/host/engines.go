package host

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"time"

	"github.com/bursar/bursar/internal/cgroupfs"
)

// Engine is a process tree to measure.
type Engine struct {
	// ID is the caller's name for the engine. Usage repeats it.
	ID string
	// PID and StartTime identify the root process, as returned by Identify.
	PID       int32
	StartTime uint64
	// Cgroup is the engine's own cgroup, as returned by OwnCgroup; "" if it has none. It must
	// contain only the engine: all of its use counts as the engine's.
	Cgroup string
	// Given: the caller did not create the cgroup, and other processes may have entered it. It
	// counts only while all of its processes are the engine's: descendants of the root, and
	// processes of User.
	Given bool
	// User is the root process's real uid when it became an engine. If it is nil or 0, only
	// descendants are the engine's.
	User *uint32
	// Moved: the engine ran before it was moved to the cgroup, and its earlier memory is charged
	// elsewhere. Its memory is then that of its processes, plus the part that only the cgroup
	// shows.
	Moved bool
	// Reaper is the child subreaper that adopts orphans of the engine: all of its children are the
	// engine's. It is not part of the engine. Zero: there is none.
	Reaper Reaper
	// Left lists processes that were known as the engine's earlier, from Usage.Orphans. A Meter
	// that has not seen them itself needs this list.
	Left []Orphan
}

// Reaper is a child subreaper whose children all belong to one engine.
type Reaper struct {
	PID       int32
	StartTime uint64 // in clock ticks after boot
}

// Usage is the measured use of one engine.
type Usage struct {
	ID string
	// Alive: the root process with that start time exists and is no zombie. It is false only if
	// this is certain. Even then some processes may remain, see Processes.
	Alive bool
	// MemoryBytes is all memory held, in RAM and in swap. For a cgroup it is the charge, including
	// page cache. For a process tree it is the mapped memory: all anonymous and shared memory, and
	// the mapped files of the process with the most of them, because processes mostly map the same
	// programs and libraries. Huge pages (HugeTLB) are not included, nor are they in the machine's
	// memory.
	MemoryBytes int64
	// UnreclaimableBytes is the part of MemoryBytes that the kernel cannot reclaim, or only to
	// swap: anonymous, shared and locked memory, and with cgroup version 2 also kernel memory. It
	// excludes page cache and memory that the engine has given back with MADV_FREE. If it is not
	// known exactly, it is too low, and so is the headroom derived from it.
	UnreclaimableBytes int64
	// SwappedBytes is the part of UnreclaimableBytes in swap. It comes back to RAM when the engine
	// uses it. So a computation of headroom subtracts it from the available memory.
	SwappedBytes int64
	// UnsureBytes is the part of UnreclaimableBytes that the engine may have given back with
	// MADV_FREE, or may share with a process that is not its own. A policy must not count it.
	UnsureBytes int64
	// PeakBytes is the highest unreclaimable memory since the last call that listed this engine, as
	// far as it is known: it includes the kernel's high-water marks of the processes.
	PeakBytes int64
	// HighestBytes is the largest high-water mark of RAM, including mapped files, among the live
	// processes. MarkBytes is the highest charge of the engine's cgroup shortly before. Both are 0
	// for an engine that was in its cgroup from the start.
	HighestBytes, MarkBytes int64
	// CacheBytes is the page cache in MemoryBytes: the cgroup's charge for files and names, or the
	// mapped files of the process with the most of them.
	CacheBytes int64
	// MappedBytes is the mapped file memory of the main process, or of the process with the most,
	// at the last reading.
	MappedBytes int64
	// CPUTime is the engine's processor time since its processes started. It includes ended
	// processes as far as this Meter knows of them. It never decreases.
	CPUTime time.Duration
	// CPUMillis is the mean since the last call that listed this engine, in thousandths of a core;
	// 0 in the first call.
	CPUMillis int64
	// Processes is the number of live processes in the cgroup or the tree.
	Processes int
	// Orphans are the processes that are not reachable downwards from the root. The caller needs
	// them to end the engine. Those in a cgroup that the caller created may be missing.
	Orphans []Orphan
	// Reaped: the engine's reaper exists.
	Reaped bool
	// Err is the error for the parts that could not be measured; the other fields are valid.
	Err error
}

// Orphan is a process that was measured as an engine's.
type Orphan struct {
	PID int32
	// StartTime is in clock ticks after boot.
	StartTime uint64
	// Descends: at first sight, the chain of parents led to the engine's root, or to another
	// process with this property. Otherwise only its session, its process group, or its user and
	// cgroup show that it is the engine's.
	Descends bool
}

// errTwice is in the Usage of all but the first of several engines with one root process.
var errTwice = errors.New("another engine has the same root process")

// tracker is the state of Engines between calls.
type tracker struct {
	scratch scratch
	forest  forest
	engines map[engineKey]*engine
	shares  shares
	subtree subtree
	// order has the listed engines, each once.
	order []*engine
	// clock is time.Now, even if a test replaces the machine's clock.
	clock func() time.Time
	// descent is this call's bounded walk over cgroups.
	descent *cgroupfs.Walk
	// calls counts calls. It rotates the order, so that different engines are last when the descent
	// runs out of time.
	calls int
	// deferred is the index of the first engine that the last pass had no time to examine closely.
	deferred int
}

type engineKey struct {
	id    string
	pid   int32
	start uint64
}

// engine is one listed engine with its state between calls.
type engine struct {
	key engineKey
	// listed: this call lists it.
	listed bool
	cgroup ownCgroup
	// reaper and left are copied from the list.
	reaper Reaper
	left   []Orphan
	// inside are the processes in its cgroup.
	inside []int32

	// Results of the pass: the rows of its processes; the ticks used since the last pass; for that
	// sum, the time of its ended children, and the part of it that was already counted.
	members        []int32
	ticks          uint64
	ended, counted uint64
	// cpuTime is its total CPU time in microseconds; marks are the kernel's high-water marks of its
	// processes' memory.
	cpuTime int64
	marks   marks
	// checked is the root's program that was compared with its parent's. forked is the same program
	// if both share memory.
	checked, forked image
	// looks is the number of measurements by its cgroup. files is the mapped file memory of its
	// main process at the last reading, in bytes.
	looks int
	files int64
	// lazy is the part that the last call excluded from its unreclaimable memory, in bytes.
	lazy int64
	// passes is the number of consecutive passes over the process table that included it. The first
	// one is the base for its use.
	passes int
}

// byTree reports whether the process table is needed because the cgroup lacks figures.
func (e *engine) byTree() bool { return !e.cgroup.memory || !e.cgroup.cpu }

// Engines measures the engines, in their order. It measures an engine with a cgroup by that cgroup;
// if the engine was moved there, also by the processes in it. For all other engines it reads the
// process table once. If ctx ends, their results have its error.
func (m *Meter) Engines(ctx context.Context, engines []Engine) []Usage {
	t, now := &m.tracker, m.now()
	usages := make([]Usage, len(engines))
	listed := t.list(engines, usages)
	byTree := m.measureCgroups(listed, engines, now, usages)
	t.shares.lazyLeft = m.lazyOfTrees(listed)
	p := pass{at: now, elapsed: since(t.forest.taken, now)}
	sinceShares := since(t.shares.at, now)
	if byTree {
		p.err = t.forest.pass(ctx, m, &t.scratch, t.order)
	} else {
		t.forest.forget(t.order)
		p.err = t.forest.inCgroups(ctx, m, &t.scratch, t.order)
	}
	p.whole = byTree && p.err == nil
	if p.err == nil {
		t.shares.begin(sinceShares, m.now)
	}
	m.measureAllProcesses(listed, p, usages)
	if p.whole {
		t.forest.taken = now
	}
	if p.err == nil {
		t.shares.at = now
		t.shares.end()
	}
	var lazy int64
	for _, e := range t.order {
		lazy = cgroupfs.Add(lazy, e.lazy)
	}
	m.lazyOfEngines.Store(lazy)
	return usages
}

// pass describes how one call read the processes of the engines.
type pass struct {
	at      time.Time
	elapsed time.Duration // since the last pass over the process table
	whole   bool          // the process table was read
	err     error         // the reason why nothing was read
}

// measureCgroups measures the listed engines by their cgroups, and reports whether any needs the
// process table.
func (m *Meter) measureCgroups(listed []*engine, engines []Engine, now time.Time, usages []Usage) bool {
	t, byTree := &m.tracker, false
	t.descent = newDescent(&t.scratch, t.clock, descentTime)
	t.calls++
	for n := range listed {
		i := (t.calls + n) % len(listed)
		e := listed[i]
		if e == nil {
			continue
		}
		m.measureCgroup(e, engines[i], now, &usages[i])
		byTree = byTree || e.byTree()
	}
	return byTree
}

// measureAllProcesses adds the figures of the processes of the listed engines. Walks over page
// tables continue where the last pass ran out of time.
func (m *Meter) measureAllProcesses(listed []*engine, p pass, usages []Usage) {
	t := &m.tracker
	first, deferred := t.deferred, false
	for n := range listed {
		i := (first + n) % len(listed)
		e := listed[i]
		if e == nil {
			continue
		}
		if m.measureProcesses(e, p, &usages[i]) && t.shares.exhausted && !deferred {
			t.deferred, deferred = i, true
		}
	}
}

// measureProcesses adds the figures of an engine's processes, and reports whether they could be
// read.
func (m *Meter) measureProcesses(e *engine, p pass, usage *Usage) bool {
	usage.Alive = m.alive(e, p.whole, usage)
	usage.Orphans, usage.Reaped = m.orphans(e, p.whole), m.isReaped(e, p.whole)
	if e.cgroup.memory && !usage.Alive {
		usage.Processes = m.countLiving(e, p.at)
	}
	if p.err == nil && e.cgroup.memory && !e.cgroup.moved {
		m.touchedAgain(e, usage)
	}
	usage.PeakBytes, usage.CPUTime = usage.UnreclaimableBytes, e.usedTime()
	if !e.byTree() && !e.cgroup.moved {
		return true
	}
	if p.err != nil {
		usage.Err = errors.Join(usage.Err, fmt.Errorf("reading the process table: %w", p.err))
		return false
	}
	m.measureTree(e, p.elapsed, usage)
	if !usage.Alive && usage.Processes == 0 && m.isReaperHidden(e) {
		usage.Processes, usage.Err = 1, errors.Join(usage.Err, ErrHidden)
	}
	return true
}

// lazyOfTrees returns the machine's lazily freed memory that is in no engine's cgroup, in bytes. It
// reads it only if some engine is measured by its processes.
func (m *Meter) lazyOfTrees(listed []*engine) int64 {
	var known int64
	needed := false
	for _, e := range listed {
		if e == nil {
			continue
		}
		if e.cgroup.memory && !e.cgroup.moved {
			known = cgroupfs.Add(known, e.lazy)
		} else {
			needed = true
		}
	}
	if !needed {
		return 0
	}
	data, err := m.tracker.scratch.read(filepath.Join(m.proc, "meminfo"))
	if err != nil {
		return 0
	}
	figures := parseMeminfo(data)
	return max(0, figures.lazilyFreed()-known)
}

// usedTime returns an engine's total processor time.
func (e *engine) usedTime() time.Duration {
	return time.Duration(min(e.cpuTime, math.MaxInt64/1000)) * time.Microsecond
}

// since returns 0 if before is zero.
func since(before, now time.Time) time.Duration {
	if before.IsZero() {
		return 0
	}
	return now.Sub(before)
}

// list finds or creates the engine of each entry; nil if an earlier entry has the same root.
func (t *tracker) list(engines []Engine, usages []Usage) []*engine {
	if t.engines == nil {
		t.engines = map[engineKey]*engine{}
	}
	for _, e := range t.engines {
		e.listed = false
	}
	type root struct {
		pid   int32
		start uint64
	}
	roots := make(map[root]struct{}, len(engines))
	t.order = t.order[:0]
	found := make([]*engine, len(engines))
	for i, wanted := range engines {
		usages[i].ID = wanted.ID
		at := root{wanted.PID, wanted.StartTime}
		if _, taken := roots[at]; taken {
			usages[i].Alive, usages[i].Err = true, errTwice
			continue
		}
		roots[at] = struct{}{}
		key := engineKey{wanted.ID, wanted.PID, wanted.StartTime}
		e := t.engines[key]
		if e == nil {
			e = &engine{key: key}
			t.engines[key] = e
		}
		e.listed, e.reaper, e.left = true, wanted.Reaper, wanted.Left
		found[i] = e
		t.order = append(t.order, e)
	}
	for key, e := range t.engines {
		if !e.listed {
			delete(t.engines, key)
		}
	}
	return found
}

// alive reports whether the root process exists, or may exist.
func (m *Meter) alive(e *engine, passed bool, usage *Usage) bool {
	f := &m.tracker.forest
	if passed {
		if row := f.table.row(e.key.pid); row != nil {
			return row.start == e.key.start && !row.ended()
		}
		if err := f.table.unread[e.key.pid]; err != nil {
			usage.Err = errors.Join(usage.Err, err)
			return true
		}
		// The table may be incomplete.
	}
	root, err := m.readStat(&m.tracker.scratch, e.key.pid)
	switch {
	case errors.Is(err, ErrNoProcess):
		return false
	case err != nil:
		usage.Err = errors.Join(usage.Err, err)
		return true
	}
	return root.start == e.key.start && !root.ended()
}

// measureTree fills in the figures that the cgroup lacks, from the processes of the pass.
func (m *Meter) measureTree(e *engine, elapsed time.Duration, usage *Usage) {
	if !e.cgroup.cpu {
		m.treeCPU(e, elapsed, usage)
	}
	if e.cgroup.memory && !e.cgroup.moved {
		return
	}
	processes := 0
	for _, i := range e.members {
		if !m.tracker.forest.table.rows[i].ended() {
			processes++
		}
	}
	memory, err := m.treeMemory(e)
	usage.Err = errors.Join(usage.Err, err)
	if e.cgroup.memory {
		// File memory in RAM that no process has mapped: only the cgroup shows it.
		unmapped := max(0, e.cgroup.shared-memory.shared)
		memory.held, memory.unreclaimable = cgroupfs.Add(memory.held, unmapped), cgroupfs.Add(memory.unreclaimable, unmapped)
	}
	usage.Processes = max(usage.Processes, processes)
	usage.MemoryBytes = max(usage.MemoryBytes, memory.held)
	if memory.unreclaimable >= usage.UnreclaimableBytes {
		usage.UnsureBytes = min(memory.unsure, memory.unreclaimable-usage.UnreclaimableBytes)
		e.lazy = memory.lazy
	}
	usage.UnreclaimableBytes = max(usage.UnreclaimableBytes, memory.unreclaimable)
	usage.SwappedBytes = max(usage.SwappedBytes, memory.swapped)
	usage.CacheBytes, usage.MappedBytes = max(usage.CacheBytes, memory.files), max(usage.MappedBytes, memory.files)
	usage.PeakBytes, usage.HighestBytes = cgroupfs.Add(usage.UnreclaimableBytes, memory.spike), memory.highest
}

// treeCPU adds the CPU time of an engine's processes since the last pass. The first pass takes
// their whole time, including their ended children.
func (m *Meter) treeCPU(e *engine, elapsed time.Duration, usage *Usage) {
	if e.passes > 1 {
		e.cpuTime = cgroupfs.Add(e.cpuTime, microseconds(e.ticks))
		if elapsed > 0 {
			seconds := float64(e.ticks) / TicksPerSecond
			usage.CPUMillis = int64(seconds / elapsed.Seconds() * 1000)
		}
	} else {
		var all uint64
		for _, i := range e.members {
			all += m.tracker.forest.table.rows[i].total()
		}
		e.cpuTime = max(e.cpuTime, microseconds(all))
	}
	usage.CPUTime = e.usedTime()
}

// microseconds converts clock ticks.
func microseconds(ticks uint64) int64 {
	const tick = 1_000_000 / TicksPerSecond
	return int64(min(ticks, math.MaxInt64/tick)) * tick
}
