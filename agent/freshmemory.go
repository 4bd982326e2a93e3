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

// readFreshMemory gives the tracker the memory that is available now, right before it decides on a
// grant: so memory that was taken since the last sample is not given away. If it cannot be read,
// the sample decides.
func (a *Agent) readFreshMemory(ctx context.Context) {
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
	a.locked(func(t *tracker.Tracker) { t.SetAvailable(m.available) })
}
