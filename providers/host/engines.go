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
	// ID is the caller's name for it, copied to the Usage.
	ID string
	// PID and StartTime are its root's, as Identify gives them.
	PID       int32
	StartTime uint64
	// Cgroup is its own, as OwnCgroup gives it; "" if it has none of its own. Nothing but the
	// engine may be in it: all that it uses is counted as the engine's.
	Cgroup string
	// Given: the caller did not make that cgroup, and others may have been put there since. It is
	// measured only as long as all that is in it is the engine's: descendants of the root, and
	// processes of User.
	Given bool
	// User is the real uid of the root when it became an engine. Nil or 0: only descendants are the
	// engine's.
	User *uint32
	// Moved: the engine ran before it was moved to that cgroup, and what it had touched by then is
	// charged elsewhere. Its memory is that of its processes, and what only the cgroup knows of.
	Moved bool
	// Reaper is the child subreaper that gets the children of the engine's processes that have
	// ended: all of its children are the engine's. It is no part of the engine. Zero: there is
	// none.
	Reaper Reaper
	// Left are processes that were seen to be the engine's before, as Usage.Orphans. They matter to
	// a Meter that has not seen them itself.
	Left []Orphan
}

// Reaper is a child subreaper with one engine below it and nothing else.
type Reaper struct {
	PID       int32
	StartTime uint64 // in clock ticks after boot
}

// Usage is what one engine used.
type Usage struct {
	ID string
	// Alive: the root process with that start time exists and is no zombie. It is false only if
	// that is known to be so; processes may be left then, see Processes.
	Alive bool
	// MemoryBytes is all memory held, in RAM and in swap. In a cgroup that is what the cgroup is
	// charged, page cache included. In a process tree it is what the processes have mapped:
	// anonymous and shared memory, and of the files mapped as much as the process with the most of
	// them has, since the rest is mostly the same programs and libraries. Huge pages (HugeTLB) are
	// not in it: they are no part of the machine's memory either.
	MemoryBytes int64
	// UnreclaimableBytes is the part of it that the kernel cannot take back, or only to swap:
	// anonymous, shared and locked memory, in a cgroup of version 2 also the kernel's own for it;
	// never page cache, and nothing that the engine has given back with MADV_FREE. If it is not
	// known exactly it is too low, and so is the headroom that is derived from it.
	UnreclaimableBytes int64
	// SwappedBytes is the part of that which is in swap. It is still the engine's: it comes back
	// when the engine uses it. So a computation of headroom takes it off the available memory,
	// which is as large as it is only because that part is away.
	SwappedBytes int64
	// UnsureBytes is the part of UnreclaimableBytes of which it is not known yet whether the engine
	// has given it back with MADV_FREE, or shares it with a process that is not its own. A policy
	// must not count it.
	UnsureBytes int64
	// PeakBytes is the most that was unreclaimable at a time since the last call that listed this
	// engine, as far as that is known: what the kernel's marks of its processes tell is in it.
	PeakBytes int64
	// HighestBytes is the most RAM, mapped files included, that one process of those that live now
	// ever had. MarkBytes is the highest charge of the engine's cgroup just before. Both are 0 for
	// an engine that was in its cgroup from the start.
	HighestBytes, MarkBytes int64
	// CacheBytes is the page cache in MemoryBytes: what the cgroup is charged for files and names,
	// or the files that the process with the most of them has mapped.
	CacheBytes int64
	// MappedBytes are the files that the main process, or the process with the most of them, had
	// mapped when that was read last.
	MappedBytes int64
	// CPUTime is the processor time of the engine since its processes started, with that of those
	// that have ended, as far as this Meter knows of them. It never goes back.
	CPUTime time.Duration
	// CPUMillis is the mean since the last call that listed this engine, in thousandths of a core;
	// 0 at the first.
	CPUMillis int64
	// Processes that have not ended, in the cgroup or the tree.
	Processes int
	// Orphans are those that are not found by going down from the root: to end the engine, they
	// have to be known. Those in a cgroup that the caller made may be missing.
	Orphans []Orphan
	// Reaped: the engine's reaper is there.
	Reaped bool
	// Err says what could not be measured; the other fields hold what could.
	Err error
}

// Orphan is a process that was measured as an engine's.
type Orphan struct {
	PID int32
	// StartTime is in clock ticks after boot.
	StartTime uint64
	// Descends: the way from parent to parent led to the engine's root, or to another process of
	// which that was known, when it was first seen. Else only the number of its session or process
	// group says that it is the engine's, or its user and its cgroup.
	Descends bool
}

// errTwice is in the Usage of all but the first of several engines with one root process.
var errTwice = errors.New("another engine has the same root process")

// tracker is what Engines keeps between calls.
type tracker struct {
	scratch scratch
	forest  forest
	engines map[engineKey]*engine
	shares  shares
	subtree subtree
	// order has the listed engines, none twice.
	order []*engine
	// clock is time.Now: the machine's time may be a test's.
	clock func() time.Time
	// descent bounds the looks below cgroups of this call.
	descent *cgroupfs.Walk
	// calls counts them, so that it is not always the same engines for which the descent has no
	// time left.
	calls int
	// deferred is the place in the list of the first engine that the last pass had no time to look
	// at closely.
	deferred int
}

type engineKey struct {
	id    string
	pid   int32
	start uint64
}

// engine is one listed engine and what is remembered of it.
type engine struct {
	key engineKey
	// listed: it is in the list of this call.
	listed bool
	cgroup ownCgroup
	// reaper and left are as in the list.
	reaper Reaper
	left   []Orphan
	// inside are the processes in its cgroup.
	inside []int32

	// What the pass found: rows of its processes; ticks used since the last pass; for that sum,
	// what its ended children came to and the part of that which was counted before.
	members        []int32
	ticks          uint64
	ended, counted uint64
	// cpuTime is all that it has used, in microseconds; marks what the kernel says of the most
	// memory of each process.
	cpuTime int64
	marks   marks
	// checked is the program of the root that was compared with its parent's, and forked the same
	// if both share memory.
	checked, forked image
	// looks is how often it was measured by its cgroup, and files what its main process had mapped
	// of files when that was read last, in bytes.
	looks int
	files int64
	// lazy is what the last call left out of its unreclaimable memory, in bytes.
	lazy int64
	// passes over the process table that it was part of, one after the other. The first is the
	// base for what it uses.
	passes int
}

// byTree reports whether the process table has to be read for what the cgroup did not tell.
func (e *engine) byTree() bool { return !e.cgroup.memory || !e.cgroup.cpu }

// Engines measures the engines, in their order. Those that have a cgroup are measured by it, and
// those that were moved there by the processes in it too; for all others together it reads the
// process table once, however many there are. When ctx ends, those come back with its error.
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

// pass is how the processes of the engines were read in one call.
type pass struct {
	at      time.Time
	elapsed time.Duration // since the last pass over the process table
	whole   bool          // the process table was read
	err     error         // why nothing was read
}

// measureCgroups measures the listed engines by their cgroups, and reports whether the process
// table has to be read for any.
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

// measureAllProcesses adds what the processes of the listed engines tell. Walks over page tables
// go on at the place at which the last pass had no time left for them.
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

// measureProcesses adds what the processes of an engine tell, and reports whether all that had to
// be known of them was read.
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

// lazyOfTrees is how much of the machine's memory is lazily freed and in no cgroup of an engine,
// in bytes. It is read only if the memory of an engine is that of its processes.
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

// usedTime is all processor time of an engine.
func (e *engine) usedTime() time.Duration {
	return time.Duration(min(e.cpuTime, math.MaxInt64/1000)) * time.Microsecond
}

// since is 0 if before is zero.
func since(before, now time.Time) time.Duration {
	if before.IsZero() {
		return 0
	}
	return now.Sub(before)
}

// list finds or makes the engine of each entry; nil if its root is another entry's too.
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

// alive reports whether the root process is there, or cannot be known not to be.
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
		// The table may just not show it.
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

// measureTree fills in what the cgroup did not tell from the processes that the pass found.
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
		// Files in memory that no process has mapped: only the cgroup knows of them.
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

// treeCPU adds what the processes of an engine have used since the last pass. In the first one it
// is all that they answer for.
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

// microseconds are those of clock ticks.
func microseconds(ticks uint64) int64 {
	const tick = 1_000_000 / TicksPerSecond
	return int64(min(ticks, math.MaxInt64/tick)) * tick
}
