package process

import (
	"github.com/prometheus/procfs"

	"github.com/bursar/bursar/providers/host"
)

// Engine is what is known of an engine.
type Engine struct {
	// Root is its root process, which may have ended.
	Root Ref
	// User is the real uid of the root process at Confirm. Nil: not known. Then only a guarded
	// cgroup says which processes are the engine's.
	User *uint32
	// Cgroup is its own, "" if it has none.
	Cgroup string
	// Made: the agent made that cgroup, so that all that is inside is counted as the engine's.
	Made bool
	// Guarded: the agent made that cgroup, and only root and the agent can move a process there.
	Guarded bool
	// Freezer stops the processes of that cgroup, if it is guarded. Nil: they cannot be stopped.
	Freezer Freezer
	// LastAlive is when the root was last known to be there, in clock ticks after boot, as
	// Handle.LastAlive tells it. 0: not known. Then a session proves nothing once the root is
	// gone.
	LastAlive uint64
	// Reaper is the child subreaper that has the engine below it and nothing else, and is no part
	// of it. All that descends from it is the engine's, also once the root has gone. Zero: there is
	// none.
	Reaper Ref
	// Descendants are processes that were seen to descend from the root, and may have got another
	// parent since. Measured are others that were counted as the engine's: they are named if they
	// are left.
	Descendants, Measured []Ref
	// Others are the main processes of other engines.
	Others []Ref
}

func now() uint64 { return host.TicksSinceBoot() }

// descent says which processes descend from the root of an engine. See the package comment.
type descent struct {
	root, reaper Ref
	// others are the main processes of other engines: they and what is below them are not this
	// engine's.
	others map[Ref]bool
	// until is the time, in clock ticks after boot, before which what started in the root's
	// session started while that was there.
	until uint64
	// known are the descendants that were found so far, as long as they are there.
	known map[Ref]bool
	// above are the processes that started the engine, as far as they were seen.
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

// update notes which of the known processes are there, and finds the other descendants in a table
// that was read after that time.
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
	// A process that is known by its session shows that the session is there, so that younger
	// members are its own.
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

// touch notes that a descendant was there after that time. If it was in the root's session then,
// no other session had the number.
func (d *descent) touch(stat procfs.ProcStat, at uint64) {
	if d.numbered(stat) {
		d.until = max(d.until, at+1)
	}
}

// numbered reports whether a process has the root's number, or is in the session of that number.
func (d *descent) numbered(stat procfs.ProcStat) bool {
	return stat.Session == int(d.root.PID) || stat.PID == int(d.root.PID)
}

// descends goes from a process to its parents, and notes in judged what it has found about each
// process on the way.
func (d *descent) descends(table map[int]procfs.ProcStat, stat procfs.ProcStat, judged map[int]bool) bool {
	var way []int
	var found bool
	for {
		var known bool
		if found, known = judged[stat.PID]; known {
			break
		}
		// also of what goes in a circle, since what was read does not fit together
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

// led reports whether a process is in the session that the root leads or led.
func (d *descent) led(stat procfs.ProcStat) bool {
	return stat.Session == int(d.root.PID) && stat.PID != int(d.root.PID) &&
		stat.Starttime >= d.root.StartTime && stat.Starttime < d.until
}

// reaped reports whether a process is a child of the engine's reaper.
func (d *descent) reaped(table map[int]procfs.ProcStat, stat procfs.ProcStat) bool {
	parent, there := table[stat.PPID]
	return there && d.reaper.PID != 0 && refOf(parent) == d.reaper && parent.Starttime <= stat.Starttime
}

// lineage are a process and those above it.
func lineage(table map[int]procfs.ProcStat, pid int) (way []procfs.ProcStat) {
	for range len(table) { // it is no longer, even if what was read does not fit together
		stat, there := table[pid]
		if !there {
			break
		}
		way = append(way, stat)
		pid = stat.PPID
	}
	return way
}
