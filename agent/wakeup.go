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
	earliest time.Time // guarded by mu; noLaterThan brings it no further forward
}

func newWakeup(at time.Time) *wakeup {
	return &wakeup{moved: make(chan struct{}, 1), at: at}
}

// set replaces the moment, and how far it can be brought forward.
func (w *wakeup) set(at, earliest time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.at, w.earliest = at, earliest
}

// when is the moment.
func (w *wakeup) when() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.at
}

// noLaterThan makes the loop due no later than that.
func (w *wakeup) noLaterThan(at time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if at.Before(w.earliest) {
		at = w.earliest
	}
	if !at.Before(w.at) {
		return
	}
	w.at = at
	select {
	case w.moved <- struct{}{}:
	default:
	}
}

// bringForward makes the loop due no later than that, also if that is before the earliest: what it
// had to wait for is over.
func (w *wakeup) bringForward(at time.Time) {
	w.mu.Lock()
	if at.Before(w.earliest) {
		w.earliest = at
	}
	w.mu.Unlock()
	w.noLaterThan(at)
}

// wait returns when the moment has come: true, or when ctx has ended: false.
func (w *wakeup) wait(ctx context.Context) bool {
	for {
		w.mu.Lock()
		left := time.Until(w.at)
		w.mu.Unlock()
		if left <= 0 {
			return ctx.Err() == nil
		}
		timer := time.NewTimer(left)
		select {
		case <-ctx.Done():
			timer.Stop()
			return false
		case <-w.moved:
			timer.Stop()
		case <-timer.C:
		}
	}
}
