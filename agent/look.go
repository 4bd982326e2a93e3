package agent

import (
	"context"
	"sync"
	"time"

	"github.com/bursar/bursar/agent/tracker"
)

// lookGap is the least time between two looks at the memory. A look takes some 0.1 ms, and a host that is asked for engines has
// thousands of grants a second to decide on at most.
const lookGap = 20 * time.Millisecond

// look is the last look at the memory that is available.
type look struct {
	mu        sync.Mutex
	at        time.Time // guarded by mu; zero: there was none
	available int64     // guarded by mu; bytes
}

// lookAtMemory tells the tracker what memory is available now, right before it decides on a grant: what others have taken
// since the last sample is not given away. If it cannot be told, the sample has to do.
func (a *Agent) lookAtMemory(ctx context.Context) {
	l := &a.look
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.at.IsZero() || time.Since(l.at) >= lookGap {
		available, err := a.deps.Meter.Available(ctx)
		if err != nil {
			a.log.Debug("the memory could not be looked at before a grant: the last measurement decides", "error", err)
			return
		}
		l.at, l.available = time.Now(), available
	}
	a.locked(func(t *tracker.Tracker) { t.Look(l.available) })
}
