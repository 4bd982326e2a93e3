package agent

import (
	"context"
	"sync"
	"time"

	"github.com/bursar/bursar/agent/tracker"
)

// freshMemoryGap is the least time between two readings of the memory. One takes some 0.1 ms, and
// a host has thousands of grants a second to decide on at most.
const freshMemoryGap = 20 * time.Millisecond

// freshMemory is the last reading of the memory that is available.
type freshMemory struct {
	mu        sync.Mutex
	at        time.Time // guarded by mu; zero: there was none
	available int64     // guarded by mu; bytes
}

// measureTimeout bounds the wait for a measurement before the decision on a grant. A measurement of
// a busy host takes some 10 ms. One that takes longer hangs, and the stale sample decides.
const measureTimeout = time.Second

// measureIfStale has the machine measured again if the last sample is too old to decide on a grant.
// The sample of an agent that was stopped for some seconds is as old as the pause: a veto based on
// it would refuse grants that callers already have.
func (a *Agent) measureIfStale(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, measureTimeout)
	defer cancel()
	for range 2 { // the first to end may have begun before the pause
		var fresh bool
		var measured <-chan struct{}
		a.state.Locked(func(t *tracker.Tracker) { fresh, measured = t.Fresh(time.Now()), a.state.Measured.Next() })
		if fresh {
			return
		}
		a.measureDue.BringForward(time.Now())
		select {
		case <-measured:
		case <-ctx.Done():
			return
		}
	}
}

// readFreshMemory gives the tracker the memory that is available now, right before it decides on a
// grant: so memory that was taken since the last sample is not given away. If it cannot be read,
// the sample decides.
func (a *Agent) readFreshMemory(ctx context.Context) {
	a.measureIfStale(ctx)
	m := &a.freshMemory
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.at.IsZero() || time.Since(m.at) >= freshMemoryGap {
		available, err := a.deps.Meter.Available(ctx)
		if err != nil {
			a.log.Debug("the memory could not be looked at before a grant: the last measurement decides", "error", err)
			return
		}
		m.at, m.available = time.Now(), available
	}
	a.state.Locked(func(t *tracker.Tracker) { t.SetAvailable(m.available) })
}
