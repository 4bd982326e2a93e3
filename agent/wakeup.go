package agent

import (
	"context"
	"sync"
	"time"
)

// wakeup is the moment at which a loop is due. One goroutine waits for it; any may bring it
// forward.
type wakeup struct {
	moved chan struct{} // one element: the moment was brought forward

	mu       sync.Mutex
	at       time.Time // guarded by mu
	earliest time.Time // guarded by mu; by brings it no further forward
}

func newWakeup(at time.Time) *wakeup {
	return &wakeup{moved: make(chan struct{}, 1), at: at}
}

// set replaces the moment, and how far it can be brought forward.
func (a *wakeup) set(at, earliest time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.at, a.earliest = at, earliest
}

// when is the moment.
func (a *wakeup) when() time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.at
}

// by makes the loop due no later than that.
func (a *wakeup) by(at time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if at.Before(a.earliest) {
		at = a.earliest
	}
	if !at.Before(a.at) {
		return
	}
	a.at = at
	select {
	case a.moved <- struct{}{}:
	default:
	}
}

// bring makes the loop due no later than that, also if that is before the earliest: what it had to
// wait for is over.
func (a *wakeup) bring(at time.Time) {
	a.mu.Lock()
	if at.Before(a.earliest) {
		a.earliest = at
	}
	a.mu.Unlock()
	a.by(at)
}

// wait returns when the moment has come: true, or when ctx has ended: false.
func (a *wakeup) wait(ctx context.Context) bool {
	for {
		a.mu.Lock()
		left := time.Until(a.at)
		a.mu.Unlock()
		if left <= 0 {
			return ctx.Err() == nil
		}
		timer := time.NewTimer(left)
		select {
		case <-ctx.Done():
			timer.Stop()
			return false
		case <-a.moved:
			timer.Stop()
		case <-timer.C:
		}
	}
}
