package host

import (
	"errors"
	"fmt"
	"time"
)

// errEntered is also told once the others have left: what they had touched stays charged there.
var errEntered = errors.New("processes that are not the engine's are in it, or were: the engine is measured by its process tree")

// leaveOthersOut looks who is in a cgroup that the caller did not make. If others are there, the
// cgroup tells nothing of the engine any more, also once they have left. Those of its processes
// that are the engine's stay in e.inside.
func (m *Meter) leaveOthersOut(e *engine, user *uint32, usage *Usage) {
	own := &e.cgroup
	if m.sortInside(e, user) {
		own.entered = true
	}
	if own.memoryAt == nil {
		own.cpu = false // nobody has looked who is inside
	}
	if !own.entered {
		return
	}
	own.memory, own.cpu, own.taken = false, false, time.Time{}
	*usage = Usage{ID: usage.ID, Err: errors.Join(usage.Err, fmt.Errorf("cgroup %s: %w", own.name, errEntered))}
}

// sortInside keeps the engine's processes in e.inside and reports whether there were others. A pid
// that was there at the last look is not looked at again, so that this costs next to nothing:
// nothing but the engine and root brings a process there.
func (m *Meter) sortInside(e *engine, user *uint32) (others bool) {
	own := &e.cgroup
	kept, proven := e.inside[:0], make(map[int32]struct{}, len(e.inside))
	for _, pid := range e.inside {
		_, known := own.proven[pid]
		if !known {
			var ended bool
			if known, ended = m.isOfEngine(e, pid, user); ended {
				continue
			}
		}
		if !known {
			others = true
			continue
		}
		kept, proven[pid] = append(kept, pid), struct{}{}
	}
	e.inside, own.proven = kept, proven
	return others
}

// isOfEngine reports whether a process in the engine's cgroup is the engine's, by the rule of Stop:
// it descends from the root, or it is of the engine's user, unless that is root. One that ended is
// nobody's.
func (m *Meter) isOfEngine(e *engine, pid int32, user *uint32) (is, ended bool) {
	s := &m.tracker.scratch
	process, err := m.readStat(s, pid)
	if err != nil {
		return false, errors.Is(err, ErrNoProcess)
	}
	if m.hasProvenAncestor(e, process) {
		return true, false
	}
	if leader, err := m.readStat(s, process.session); err == nil && leader.start <= process.start && e.isProven(leader) {
		return true, false
	}
	if user == nil || *user == 0 {
		return false, false
	}
	identity, err := m.Identify(pid)
	return err == nil && identity.UID == *user, errors.Is(err, ErrNoProcess)
}

// hasProvenAncestor goes from a process up to one that is the engine's. A parent is no younger than
// its child: if it is, it has only got the pid of the real one.
func (m *Meter) hasProvenAncestor(e *engine, process stat) bool {
	for !e.isProven(process) {
		parent, err := m.readStat(&m.tracker.scratch, process.parent)
		if err != nil || process.parent <= 1 || parent.start > process.start {
			return false
		}
		process = parent
	}
	return true
}

// isProven reports whether a process is the root, or was known to be the engine's at the last look.
func (e *engine) isProven(process stat) bool {
	_, known := e.cgroup.proven[process.pid]
	return known || process.pid == e.key.pid && process.start == e.key.start
}
