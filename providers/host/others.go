package host

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// errEntered is also reported after the others have left: the memory that they touched stays
// charged to the cgroup.
var errEntered = errors.New("processes that are not the engine's are in it, or were: the engine is measured by its process tree")

// leaveOthersOut checks a cgroup that the caller did not create. If other processes were ever in
// it, its figures no longer describe the engine, even after they have left. e.inside keeps only the
// engine's processes.
func (m *Meter) leaveOthersOut(e *engine, usage *Usage) {
	own := &e.cgroup
	switch {
	case !own.memory:
		own.cpu = false // its processes were not checked
	case m.sortInside(e):
		own.entered = true
	}
	if !own.entered {
		return
	}
	own.memory, own.cpu, own.taken = false, false, time.Time{}
	e.lazy = 0
	*usage = Usage{ID: usage.ID, Err: errors.Join(usage.Err, fmt.Errorf("cgroup %s: %w", own.name, errEntered))}
}

// sortInside keeps the engine's processes in e.inside and reports whether there were others. It
// does not check known pids again, so it is cheap: only the engine and root can move a process
// there.
func (m *Meter) sortInside(e *engine) (others bool) {
	own := &e.cgroup
	kept, proven := e.inside[:0], make(map[int32]Orphan, len(e.inside))
	for _, pid := range e.inside {
		process, known := own.proven[pid]
		var err error
		if !known {
			process, known, err = m.isOfEngine(e, pid)
		}
		switch {
		case errors.Is(err, ErrNoProcess): // it has ended
		case err != nil: // counts for now, and is checked again
			kept = append(kept, pid)
		case !known:
			others = true
		default:
			kept, proven[pid] = append(kept, pid), process
		}
	}
	e.inside, own.proven = kept, proven
	return others
}

// isOfEngine reports whether a process in the engine's cgroup is the engine's, by the same rule as
// Stop: it descends from the root, or it has the engine's user, unless that is root. ErrNoProcess:
// it has ended. Another error: it could not be checked.
func (m *Meter) isOfEngine(e *engine, pid int32) (process Orphan, is bool, err error) {
	s := &m.tracker.scratch
	found, err := m.readStat(s, pid)
	if err != nil {
		return Orphan{}, false, err
	}
	process = Orphan{PID: pid, StartTime: found.start, Descends: m.hasProvenAncestor(e, found)}
	if process.Descends {
		return process, true, nil
	}
	if leader, err := m.readStat(s, found.session); err == nil && leader.start <= found.start && e.knownAs(leader).PID != 0 {
		return process, true, nil
	}
	user := e.cgroup.user
	if user == nil || *user == 0 {
		return process, false, nil
	}
	identity, err := m.Identify(pid)
	return process, err == nil && identity.UID == *user, err
}

// hasProvenAncestor follows the parents of a process up to one that descends from the root. A
// parent is never younger than its child; a younger one has reused the parent's pid.
func (m *Meter) hasProvenAncestor(e *engine, process stat) bool {
	for known := e.knownAs(process); !known.Descends; known = e.knownAs(process) {
		parent, err := m.readStat(&m.tracker.scratch, process.parent)
		if err != nil || process.parent <= 1 || parent.start > process.start {
			return false
		}
		if (Reaper{parent.pid, parent.start}) == e.reaper {
			return true
		}
		process = parent
	}
	return true
}

// knownAs returns the earlier result about a process, or about the root; the zero value: none.
func (e *engine) knownAs(process stat) Orphan {
	if process.pid == e.key.pid && process.start == e.key.start {
		return Orphan{PID: process.pid, StartTime: process.start, Descends: true}
	}
	if known := e.cgroup.proven[process.pid]; known.StartTime == process.start {
		return known
	}
	return Orphan{}
}

// isReaped reports whether the engine's reaper exists.
func (m *Meter) isReaped(e *engine, passed bool) bool {
	reaper := e.reaper
	if reaper.PID == 0 {
		return false
	}
	if passed {
		row := m.tracker.forest.table.same(reaper.PID, reaper.StartTime)
		return row != nil && !row.ended()
	}
	found, err := m.readStat(&m.tracker.scratch, reaper.PID)
	return err == nil && found.start == reaper.StartTime && !found.ended()
}

// isReaperHidden reports whether an engine's reaper exists but is hidden. It exists as long as a
// process of the engine lives, which is then hidden, too.
func (m *Meter) isReaperHidden(e *engine) bool {
	if e.reaper.PID == 0 {
		return false
	}
	_, err := m.readStat(&m.tracker.scratch, e.reaper.PID)
	return errors.Is(err, ErrHidden)
}

// orphans returns the processes of an engine that are not reachable downwards from its root.
func (m *Meter) orphans(e *engine, passed bool) (list []Orphan) {
	if e.cgroup.given {
		for _, pid := range e.inside {
			if process := e.cgroup.proven[pid]; process.Descends && pid != e.key.pid {
				list = append(list, process) // its ancestors are no longer known
			}
		}
	}
	if !passed {
		return list
	}
	f := &m.tracker.forest
	for _, i := range e.members {
		row := &f.table.rows[i]
		root := row.pid == e.key.pid && row.start == e.key.start
		if root || row.ended() || row.descends && f.hasParentOf(row) {
			continue
		}
		found := Orphan{PID: row.pid, StartTime: row.start, Descends: row.descends}
		if _, known := e.cgroup.proven[row.pid]; !known || !slices.Contains(list, found) {
			list = append(list, found)
		}
	}
	slices.SortFunc(list, func(a, b Orphan) int { return int(a.PID - b.PID) })
	return list
}
