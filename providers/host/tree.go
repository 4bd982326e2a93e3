package host

import (
	"context"
	"slices"
	"time"
)

// A process belongs to the nearest engine above it: the first of its ancestors that is an engine's
// root. That chain breaks when a process in it ends: the kernel then gives its children to another
// parent, pid 1 or a subreaper. So the forest remembers the engine of each process, and a
// reparented process stays with its engine. For a process that was never seen with its first
// parent, there are other signs: its parent is the engine's reaper, it is in the cgroup that the
// engine was moved to, or a process of the engine leads or led its session or process group.

// member is the state of a process that belonged to an engine in the last pass.
type member struct {
	start  uint64
	engine *engine
	// descends is as in a row of the table.
	descends bool
	// first is the parent in the first pass that saw it, parent the one in the last pass.
	first, parent int32
	own, children uint64
}

// forest is the state between passes over the process table.
type forest struct {
	table table
	// members are by pid; all were alive at the same time. spare is the map of the pass before, for
	// reuse.
	members, spare map[int32]member
	// leaders maps pids of engine processes, alive or not, whose session or process group still has
	// a process of that engine. The kernel does not reuse such a number while it is in use.
	leaders, spareLeaders map[int32]*engine
	// engines are the engines of this pass; roots are the same by pid; inside maps the processes in
	// their cgroups.
	engines []*engine
	roots   map[int32]*engine
	inside  map[int32]*engine
	// reapers maps the pids of reapers to their engines. Nil: several engines name that reaper.
	reapers map[int32]*engine
	// newest and youngest are copied from the last pass's table; taken is its time, zero if there
	// was none.
	newest   uint64
	youngest []int32
	taken    time.Time
}

// pass reads the process table, assigns each process to its engine, and counts the CPU time of each
// engine since the last pass.
func (f *forest) pass(ctx context.Context, m *Meter, s *scratch, engines []*engine) error {
	if err := f.table.read(ctx, m, s); err != nil {
		return err
	}
	f.assign(engines)
	return nil
}

// inCgroups reads only the processes in the cgroups that engines were moved to, and assigns them.
// It keeps no state: the cgroups provide the CPU time.
func (f *forest) inCgroups(ctx context.Context, m *Meter, s *scratch, engines []*engine) error {
	f.table.empty()
	for _, e := range engines {
		e.members = e.members[:0]
		if !e.cgroup.moved {
			continue
		}
		for _, pid := range e.inside {
			if err := ctx.Err(); err != nil {
				return err //nolint:wrapcheck // the caller's own
			}
			if f.table.row(pid) != nil || !f.table.readOne(m, s, pid) {
				continue // listed twice, or ended
			}
			e.members = append(e.members, int32(len(f.table.rows)-1)) //nolint:gosec // there are fewer processes than pids
		}
	}
	return nil
}

// assign assigns the processes of a table to their engines.
func (f *forest) assign(engines []*engine) {
	f.setRoots(engines)
	for i := range f.table.rows {
		if row := &f.table.rows[i]; f.owner(row) != nil {
			row.owner.members = append(row.owner.members, int32(i))
		}
	}
	f.count()
	f.remember()
}

// forget makes the next pass a first one.
func (f *forest) forget(engines []*engine) {
	clear(f.members)
	clear(f.leaders)
	f.taken = time.Time{}
	for _, e := range engines {
		e.passes = 0
	}
}

// setRoots assigns the root processes to their engines.
func (f *forest) setRoots(engines []*engine) {
	if f.roots == nil {
		f.roots, f.inside, f.reapers = map[int32]*engine{}, map[int32]*engine{}, map[int32]*engine{}
		f.members, f.leaders = map[int32]member{}, map[int32]*engine{}
	}
	clear(f.roots)
	clear(f.inside)
	clear(f.reapers)
	f.engines = engines
	for _, e := range engines {
		e.members, e.ticks, e.ended, e.counted = e.members[:0], 0, 0, 0
		e.passes++
		// An engine that ended long ago can still be listed next to one that has reused its pid.
		if other := f.roots[e.key.pid]; other == nil || other.key.start < e.key.start {
			f.roots[e.key.pid] = e
		}
		if row := f.table.same(e.key.pid, e.key.start); row != nil && row.owner == nil {
			row.owner, row.progress, row.descends = e, settled, true
		}
		f.setReaper(e)
		if e.passes == 1 {
			f.recall(e)
		}
		if e.cgroup.moved || e.cgroup.entered {
			for _, pid := range e.inside {
				f.inside[pid] = e
			}
		}
	}
}

// setReaper records the reaper of an engine, if it exists.
func (f *forest) setReaper(e *engine) {
	if e.reaper.PID == 0 || f.table.same(e.reaper.PID, e.reaper.StartTime) == nil {
		return
	}
	if _, taken := f.reapers[e.reaper.PID]; taken {
		f.reapers[e.reaper.PID] = nil // it is unclear which engine its children belong to
		return
	}
	f.reapers[e.reaper.PID] = e
}

// recall adds the processes of an engine that another Meter has seen.
func (f *forest) recall(e *engine) {
	for _, left := range e.left {
		if _, known := f.members[left.PID]; !known {
			f.members[left.PID] = member{start: left.StartTime, engine: e, descends: left.Descends}
		}
	}
}

// owner returns the engine that a process belongs to, nil if none, and stores it in the row.
func (f *forest) owner(row *process) *engine {
	if row.progress == untouched {
		row.progress = underway // a process in a cycle belongs to no engine
		row.owner = f.find(row)
		row.descends = f.descends(row)
		row.progress = settled
	}
	return row.owner
}

// descends reports whether a process is known to descend from the root of its engine: by its parent
// now, or by its parent at first sight.
func (f *forest) descends(row *process) bool {
	if row.owner == nil {
		return false
	}
	was, known := f.members[row.pid]
	return f.hasParentOf(row) || f.isReaped(row) || known && was.start == row.start && was.engine == row.owner && was.descends
}

// hasParentOf reports whether the parent of a process is known to descend from the root of the same
// engine. A parent is never younger than its child; a younger one has reused the parent's pid.
func (f *forest) hasParentOf(row *process) bool {
	parent := f.table.row(row.parent)
	return parent != nil && parent != row && parent.owner == row.owner && parent.descends && parent.start <= row.start
}

// isReaped reports whether the parent of a process is the reaper of its engine.
func (f *forest) isReaped(row *process) bool {
	e := f.reapers[row.parent]
	return e != nil && e == row.owner && e.reaper.StartTime <= row.start
}

func (f *forest) find(row *process) *engine {
	above := f.reapers[row.parent]
	if parent := f.table.row(row.parent); above == nil && parent != nil && parent != row {
		above = f.owner(parent)
	}
	if was, known := f.members[row.pid]; known && was.start == row.start && was.engine.listed {
		if above != nil && was.first == row.parent {
			return above
		}
		return was.engine
	}
	if above != nil {
		return above
	}
	if e := f.inside[row.pid]; e != nil {
		return e
	}
	if led := f.engineOfLeader(row, row.session); led != nil {
		return led
	}
	return f.engineOfLeader(row, row.group)
}

// engineOfLeader returns the engine of the leader of a process's session or group, even if the
// leader has ended.
func (f *forest) engineOfLeader(row *process, number int32) *engine {
	if number == 0 || number == row.pid {
		return nil
	}
	if leader := f.table.row(number); leader != nil {
		return f.owner(leader)
	}
	if e := f.leaders[number]; e != nil && e.listed {
		return e
	}
	return f.formerRoot(row, number)
}

// formerRoot returns the engine whose root was the leader and had ended before the engine's first
// pass. Later passes remember it.
func (f *forest) formerRoot(row *process, number int32) *engine {
	if e := f.roots[number]; e != nil && e.passes == 1 && row.start >= e.key.start {
		return e
	}
	return nil
}

// count adds up, in clock ticks, the CPU time of each engine's processes since the last pass.
//
// A process accounts for its own time and for that of its ended and reaped children. When a child
// ends, its time moves to its parent. To keep the sum, count subtracts the part that was counted
// while the child was alive. It subtracts it from the engine of the nearest ancestor that still
// exists, and never more than the time of that engine's ended children: the last moments of a child
// that no process of the engine reaped are lost. One part stays unknown: the time since the last
// pass of a process that ended and was reaped by a stranger (the root itself, an orphan, a child of
// a process that ignores SIGCHLD).
func (f *forest) count() {
	for i := range f.table.rows {
		row := &f.table.rows[i]
		if row.owner == nil {
			continue
		}
		was, known := f.members[row.pid]
		switch {
		case known && was.start == row.start:
			row.owner.ticks += increase(was.own, row.own)
			row.owner.ended += increase(was.children, row.children)
		case row.start > f.newest || row.start == f.newest && !slices.Contains(f.youngest, row.pid):
			// It started after the last pass: all of its time is new.
			row.owner.ticks += row.own
			row.owner.ended += row.children
		}
	}
	for pid, was := range f.members {
		if f.table.same(pid, was.start) != nil {
			continue
		}
		if ancestor := f.ancestor(was); ancestor != nil && ancestor.owner != nil {
			ancestor.owner.counted += was.own + was.children
		}
	}
	for _, e := range f.engines {
		e.ticks += increase(e.counted, e.ended)
	}
}

// increase is the difference of two counters; 0 if a counter has stepped back.
func increase(before, after uint64) uint64 { return max(before, after) - before }

// ancestor returns the nearest ancestor of an ended process that was a member and still exists.
func (f *forest) ancestor(gone member) *process {
	for range len(f.members) {
		above, known := f.members[gone.parent]
		if !known {
			return nil
		}
		if row := f.table.same(gone.parent, above.start); row != nil {
			return row
		}
		gone = above
	}
	return nil
}

// remember stores the state for the next pass.
func (f *forest) remember() {
	members, leaders := f.spare, f.spareLeaders
	if members == nil { // the first pass
		members, leaders = map[int32]member{}, map[int32]*engine{}
	}
	clear(members)
	clear(leaders)
	for i := range f.table.rows {
		row := &f.table.rows[i]
		if row.owner == nil {
			continue
		}
		now := member{
			start: row.start, engine: row.owner, descends: row.descends, first: row.parent, parent: row.parent,
			own: row.own, children: row.children,
		}
		if was, known := f.members[row.pid]; known && was.start == row.start {
			now.first = was.first
		}
		members[row.pid] = now
		for _, number := range [...]int32{row.session, row.group} {
			if f.isLedBySameEngine(number, row) {
				leaders[number] = row.owner
			}
		}
	}
	f.members, f.spare = members, f.members
	f.leaders, f.spareLeaders = leaders, f.leaders
	f.newest, f.youngest = f.table.newest, append(f.youngest[:0], f.table.youngest...)
}

// isLedBySameEngine reports whether the leader of that session or group is, or was, of the same
// engine as the process.
func (f *forest) isLedBySameEngine(number int32, row *process) bool {
	if number == 0 {
		return false
	}
	if leader := f.table.row(number); leader != nil {
		return leader.owner == row.owner
	}
	return f.leaders[number] == row.owner || f.formerRoot(row, number) == row.owner
}
