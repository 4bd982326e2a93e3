package host

import (
	"context"
	"errors"
)

// table is the process table as read by one pass. The next pass reuses its memory. It reads
// /proc/*/stat itself: prometheus/procfs takes about twice as long (500 processes: 6 and 11 ms),
// and lacks some of the fields.
type table struct {
	pids []int32
	rows []process
	// index maps each pid to its row.
	index map[int32]int32
	// unread maps processes that exist but could not be read to their errors.
	unread map[int32]error
	// newest is the latest start time of all processes, in clock ticks after boot; youngest are the
	// processes with that start time. They show, without a clock, which processes have started
	// since.
	newest   uint64
	youngest []int32
}

// add appends a row.
func (t *table) add(got stat, thread int32) {
	t.index[got.pid] = int32(len(t.rows)) //nolint:gosec // there are fewer processes than pids
	t.rows = append(t.rows, process{stat: got, thread: thread})
	if got.start > t.newest {
		t.newest, t.youngest = got.start, t.youngest[:0]
	}
	if got.start == t.newest {
		t.youngest = append(t.youngest, got.pid)
	}
}

// empty prepares the table for reuse.
func (t *table) empty() {
	t.rows, t.newest, t.youngest = t.rows[:0], 0, t.youngest[:0]
	if t.index == nil {
		t.index, t.unread = map[int32]int32{}, map[int32]error{}
	}
	clear(t.index)
	clear(t.unread)
}

// process is a row of the table.
type process struct {
	stat
	progress progress
	// owner is the engine that the process belongs to; nil: none.
	owner *engine
	// descends: it is the root of that engine, or is known to descend from it.
	descends bool
	// thread is a thread with a live address space, with an entry in /proc like a pid: the first
	// thread, or another one if the first has ended.
	thread int32
}

// progress is the state of the search for a process's owner.
type progress byte

const (
	untouched progress = iota
	underway
	settled
)

// row returns the row of a pid; nil if there is none.
func (t *table) row(pid int32) *process {
	if i, found := t.index[pid]; found {
		return &t.rows[i]
	}
	return nil
}

// same returns the row of a process that was seen before; nil if it has ended, even if its pid was
// reused.
func (t *table) same(pid int32, start uint64) *process {
	if row := t.row(pid); row != nil && row.start == start {
		return row
	}
	return nil
}

// read fills the table. It may miss processes that start or end meanwhile.
func (t *table) read(ctx context.Context, m *Meter, s *scratch) (err error) {
	t.empty()
	if t.pids, err = pids(m.proc, t.pids[:0]); err != nil {
		return err
	}
	for _, pid := range t.pids {
		if err := ctx.Err(); err != nil {
			return err
		}
		t.readOne(m, s, pid)
	}
	return nil
}

// readOne adds the row of a process; false: it has ended, or cannot be read.
func (t *table) readOne(m *Meter, s *scratch, pid int32) bool {
	got, err := m.readStat(s, pid)
	if err != nil {
		if !errors.Is(err, ErrNoProcess) {
			t.unread[pid] = err
		}
		return false
	}
	thread := pid
	if got.headless() {
		thread, got.image = m.liveThread(s, got)
	}
	t.add(got, thread)
	return true
}

// liveThread returns a live thread of a process whose first thread has ended, with its image: the
// kernel detaches the address space from a thread that ends. If there is none, the process has
// ended in the meantime, and has no memory.
func (m *Meter) liveThread(s *scratch, of stat) (int32, image) {
	threads, err := pids(m.file(of.pid, "task"), nil)
	if err != nil {
		return of.pid, image{}
	}
	for _, thread := range threads {
		if got, err := m.readStat(s, thread); err == nil && thread != of.pid && !ended(got.state, 1) {
			return thread, got.image
		}
	}
	return of.pid, image{}
}
