package process

import (
	"github.com/prometheus/procfs"

	"github.com/bursar/bursar/providers/host"
)

// Engine is the caller's knowledge of an engine.
type Engine struct {
	// Root is its root process, which may have ended.
	Root Ref
	// User is the real uid of the root process at Confirm. If it is nil, the uid is unknown, and
	// only membership of a guarded cgroup makes a process the engine's.
	User *uint32
	// Cgroup is the engine's own cgroup, "" if it has none.
	Cgroup string
	// Made is set if the agent made that cgroup. Then all processes inside count as the engine's.
	Made bool
	// Guarded is set if the agent made that cgroup, and only root and the agent can move a process
	// there.
	Guarded bool
	// Freezer freezes the processes of that cgroup, if it is guarded. Nil if they cannot be frozen.
	Freezer Freezer
	// LastAlive is when the root was last known to run, in clock ticks after boot, from
	// Handle.LastAlive. If it is 0, the time is unknown, and a session proves nothing once the root
	// has ended.
	LastAlive uint64
	// Reaper is the child subreaper above the engine; it is not part of the engine. All its
	// descendants are the engine's, also after the root has ended. The zero Ref means none.
	Reaper Ref
	// Descendants are processes that were seen as descendants of the root and may have another
	// parent now. Measured are other processes that were counted as the engine's; LeftError names
	// them if they are left.
	Descendants, Measured []Ref
	// Others are the main processes of other engines.
	Others []Ref
}

func now() uint64 { return host.TicksSinceBoot() }

// descent finds the processes that descend from the root of an engine. See the package comment.
type descent struct {
	root, reaper Ref
	// others are the main processes of other engines. They and their descendants are not this
	// engine's.
	others map[Ref]bool
	// until is the last time, in clock ticks after boot, at which the root's session was known to
	// exist. A process of this session number that started later proves nothing.
	until uint64
	// known are the descendants found so far that still run.
	known map[Ref]bool
	// above are the ancestors of the engine's root that were seen.
	above map[Ref]bool
}

func newDescent(e Engine) *descent {
	d := &descent{root: e.Root, reaper: e.Reaper, until: e.LastAlive, others: make(map[Ref]bool), known: make(map[Ref]bool), above: make(map[Ref]bool)}
	for _, ref := range e.Others {
		if ref != e.Root {
			d.others[ref] = true
		}
	}
	for _, ref := range e.Descendants {
		d.known[ref] = true
	}
	return d
}

func refOf(stat procfs.ProcStat) Ref {
	return Ref{PID: int32(stat.PID), StartTime: stat.Starttime} //nolint:gosec // a pid is below 2^22
}

// update drops the known processes that have ended, and finds new descendants in table, which was
// read after the time at.
func (d *descent) update(table map[int]procfs.ProcStat, at uint64) {
	there := make(map[Ref]bool, len(d.known))
	for _, stat := range table {
		ref := refOf(stat)
		if ref == d.root || d.known[ref] {
			there[ref] = true
			d.touch(stat, at)
		}
		starter := 0
		switch ref {
		case d.root:
			starter = stat.PPID
		case d.reaper:
			starter = stat.PID
		}
		for _, over := range lineage(table, starter) {
			d.above[refOf(over)] = true
		}
	}
	d.known = there
	// A process that is known by its session shows that the session still exists, so younger
	// members belong to it, too.
	for before := -1; before != len(d.known); {
		before = len(d.known)
		judged := make(map[int]bool, len(table))
		for _, stat := range table {
			if d.descends(table, stat, judged) {
				d.known[refOf(stat)] = true
				d.touch(stat, at)
			}
		}
	}
}

// touch records that a descendant was running after the time at. If it was in the root's session,
// no other session had the number then.
func (d *descent) touch(stat procfs.ProcStat, at uint64) {
	if d.numbered(stat) {
		d.until = max(d.until, at+1)
	}
}

// numbered reports whether a process has the root's pid, or is in the session of that number.
func (d *descent) numbered(stat procfs.ProcStat) bool {
	return stat.Session == int(d.root.PID) || stat.PID == int(d.root.PID)
}

// descends goes from a process to its parents, and stores its result for each process on the way in
// judged.
func (d *descent) descends(table map[int]procfs.ProcStat, stat procfs.ProcStat, judged map[int]bool) bool {
	var way []int
	var found bool
	for {
		var known bool
		if found, known = judged[stat.PID]; known {
			break
		}
		// set first, so that a cycle ends: the table was not read at one moment
		judged[stat.PID] = false
		way = append(way, stat.PID)
		if d.others[refOf(stat)] {
			break
		}
		if found = d.known[refOf(stat)] || refOf(stat) == d.root || d.led(stat) || d.reaped(table, stat); found {
			break
		}
		parent, there := table[stat.PPID]
		if !there || stat.PPID <= 1 || parent.Starttime > stat.Starttime {
			break
		}
		stat = parent
	}
	for _, pid := range way {
		judged[pid] = found
	}
	return found
}

// led reports whether a process is in the session that the root leads or once led.
func (d *descent) led(stat procfs.ProcStat) bool {
	return stat.Session == int(d.root.PID) && stat.PID != int(d.root.PID) &&
		stat.Starttime >= d.root.StartTime && stat.Starttime < d.until
}

// reaped reports whether a process is a child of the engine's reaper.
func (d *descent) reaped(table map[int]procfs.ProcStat, stat procfs.ProcStat) bool {
	parent, there := table[stat.PPID]
	return there && d.reaper.PID != 0 && refOf(parent) == d.reaper && parent.Starttime <= stat.Starttime
}

// lineage returns a process and its ancestors.
func lineage(table map[int]procfs.ProcStat, pid int) (way []procfs.ProcStat) {
	for range len(table) { // bounds the walk if the inconsistent table has a cycle
		stat, there := table[pid]
		if !there {
			break
		}
		way = append(way, stat)
		pid = stat.PPID
	}
	return way
}
