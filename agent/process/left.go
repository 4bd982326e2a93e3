package process

import (
	"context"
	"sync"

	"github.com/bursar/bursar/internal/processtable"
)

// Below reports whether an engine's reaper has a child. The kernel makes each process of the engine
// that has lost its parent a child of the reaper, so no other process has to be read. ErrEnded: the
// reaper has ended.
func (o *Opener) Below(reaper Ref) (bool, error) {
	list, err := Descendants(o.proc, reaper)
	if err != nil {
		return false, err
	}
	for _, ref := range list {
		if ref == reaper {
			continue
		}
		if found, err := o.identifier.Identify(ref.PID); err == nil && found.StartTime == ref.StartTime && !found.Ended() {
			return true, nil
		}
	}
	return false, nil
}

// Led reports whether a process lives in the session or the group of a root that has ended. Callers
// use it for an engine without a keeper. All waiting callers share one reading of the process
// table, which begins after their calls.
func (o *Opener) Led(ctx context.Context, root Ref) (bool, error) {
	table, err := o.tables.read(ctx)
	if err != nil {
		return false, err
	}
	number := int(root.PID)
	if p, taken := table[number]; taken && !p.Ended {
		return false, nil // another process has the number, so no session or group has kept it
	}
	for pid, p := range table {
		if pid != number && !p.Ended && (p.Session == number || p.Group == number) {
			return true, nil
		}
	}
	return false, nil
}

// tables reads the process table for several callers at a time.
type tables struct {
	turn chan struct{} // held during a reading

	mu   sync.Mutex
	next *reading // the reading that has not begun; nil if no caller waits
}

type reading struct {
	done  chan struct{}
	table processtable.Table
}

func newTables() *tables { return &tables{turn: make(chan struct{}, 1)} }

func (t *tables) read(ctx context.Context) (processtable.Table, error) {
	t.mu.Lock()
	r := t.next
	if r == nil {
		r = &reading{done: make(chan struct{})}
		t.next = r
		go t.run(r)
	}
	t.mu.Unlock()
	select {
	case <-r.done:
		return r.table, nil
	case <-ctx.Done():
		return nil, ctx.Err() //nolint:wrapcheck // it is the caller's own
	}
}

// run returns after two readings at most.
func (t *tables) run(r *reading) {
	t.turn <- struct{}{}
	t.mu.Lock()
	t.next = nil
	t.mu.Unlock()
	r.table = processtable.Read()
	close(r.done)
	<-t.turn
}
