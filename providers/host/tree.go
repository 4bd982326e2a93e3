package host

import (
	"context"
	"slices"
	"time"
)

// A process belongs to the nearest engine above it: the first process on the way from parent to
// parent that is an engine's root. That way breaks when a process on it ends: the kernel then
// gives its children to another parent, pid 1 or a process that asked for orphans. So the engine
// of each process is remembered, and a process that was handed on stays with its engine. A process
// that was never seen with its first parent is known by its engine's reaper, if that is its parent,
// by the cgroup that its engine was moved to, or by its session or process group, if a process of
// the engine leads or led it.

// member is what is remembered of a process that belonged to an engine in the last pass.
type member struct {
	start  uint64
	engine *engine
	// descends is as in a row of the table.
	descends bool
	// first is the parent it was seen with first, parent the one it was seen with last.
	first, parent int32
	own, children uint64
}

// forest is what passes over the process table remember between each other.
type forest struct {
	table table
	// members are by pid: all were alive at once. spare is the map of the pass before, to be
	// filled by the next.
	members, spare map[int32]member
	// leaders has the pids of processes of engines, alive or not, whose session or process group
	// still has a process of that engine. The kernel does not give such a number to another
	// process as long as it is in use.
	leaders, spareLeaders map[int32]*engine
	// engines are those of this pass, roots the same by pid; inside has what is in their cgroups.
	engines []*engine
	roots   map[int32]*engine
	inside  map[int32]*engine
	// reapers are the engines by the pids of their reapers. Nil: several engines name that one.
	reapers map[int32]*engine
	// newest and youngest are those of the last pass's table; taken is when that was, zero if
	// there was none.
	newest   uint64
	youngest []int32
	taken    time.Time
}

// pass reads the process table, gives each process to its engine and counts what CPU time each
// engine used since the last.
func (f *forest) pass(ctx context.Context, m *Meter, s *scratch, engines []*engine) error {
	if err := f.table.read(ctx, m, s); err != nil {
		return err
	}
	f.assign(engines)
	return nil
}

// inCgroups reads of the process table only what is in the cgroups that engines were moved to, and
// gives it to them. It remembers nothing: the cgroups tell what CPU time was used.
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
				continue // in two, one below the other; or it has ended
			}
			e.members = append(e.members, int32(len(f.table.rows)-1)) //nolint:gosec // there are fewer processes than pids
		}
	}
	return nil
}

// assign does that with a table that has been read.
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

// setRoots makes the engines' root processes theirs.
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
		// One that ended long ago can still be listed next to one that has its pid now.
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

// setReaper notes the reaper of an engine, if it is there.
func (f *forest) setReaper(e *engine) {
	if e.reaper.PID == 0 || f.table.same(e.reaper.PID, e.reaper.StartTime) == nil {
		return
	}
	if _, taken := f.reapers[e.reaper.PID]; taken {
		f.reapers[e.reaper.PID] = nil // its children are not known to be the one's or the other's
		return
	}
	f.reapers[e.reaper.PID] = e
}

// recall makes processes of an engine members that another Meter has seen to be so.
func (f *forest) recall(e *engine) {
	for _, left := range e.left {
		if _, known := f.members[left.PID]; !known {
			f.members[left.PID] = member{start: left.StartTime, engine: e, descends: left.Descends}
		}
	}
}

// owner returns the engine that a process belongs to, nil if none, and notes it in the row.
func (f *forest) owner(row *process) *engine {
	if row.progress == untouched {
		row.progress = underway // A process in a circle belongs to no engine.
		row.owner = f.find(row)
		row.descends = f.descends(row)
		row.progress = settled
	}
	return row.owner
}

// descends reports whether a process is known to descend from the root of its engine: by its
// parent, or because that was so when it was seen first.
func (f *forest) descends(row *process) bool {
	if row.owner == nil {
		return false
	}
	was, known := f.members[row.pid]
	return f.hasParentOf(row) || f.isReaped(row) || known && was.start == row.start && was.engine == row.owner && was.descends
}

// hasParentOf reports whether the parent of a process is known to descend from the root of the same
// engine. A parent is no younger than its child: if it is, it has only got the pid of the real one.
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

// engineOfLeader returns the engine to which the leader of a process's session or group belongs,
// or belonged.
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

// formerRoot returns the engine whose root was the leader, and was gone before the engine's first
// pass. Later passes remember it.
func (f *forest) formerRoot(row *process, number int32) *engine {
	if e := f.roots[number]; e != nil && e.passes == 1 && row.start >= e.key.start {
		return e
	}
	return nil
}

// count adds up, in clock ticks, what each engine's processes used since the last pass.
//
// A process answers for its own time and for that of its children that ended and were waited for.
// So while a child ends, what it used moves from it to its parent and the sum stays, provided that
// the part that was counted when it was alive is taken off. That part is taken off the engine of
// its nearest ancestor that is still there, and never more than that engine's ended children came
// to: a child that no process of the engine waited for takes its last moments with it. What cannot
// be had: the time since the last pass of a process that ended and was waited for by a stranger
// (the root itself, an orphan, a child of a process that ignores SIGCHLD).
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
			// It started after the last pass: all it used is new.
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

// ancestor returns the nearest ancestor of a process that is gone, of those that were members and
// are still there.
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

// remember keeps what the next pass needs to know of this one.
func (f *forest) remember() {
	members, leaders := f.spare, f.spareLeaders
	if members == nil { // the first time
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
