package loops

import (
	"context"
	"sync"
	"time"
)

// Wakeup is the moment at which a loop is due. One goroutine waits for it; any may bring it
// forward.
type Wakeup struct {
	moved chan struct{} // one element: the moment was brought forward

	mu       sync.Mutex
	at       time.Time // guarded by mu
	earliest time.Time // guarded by mu; NoLaterThan brings it no further forward
}

// NewWakeup returns one that is due at that time.
func NewWakeup(at time.Time) *Wakeup {
	return &Wakeup{moved: make(chan struct{}, 1), at: at}
}

// Set replaces the moment, and how far it can be brought forward.
func (w *Wakeup) Set(at, earliest time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.at, w.earliest = at, earliest
}

// When is the moment.
func (w *Wakeup) When() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.at
}

// NoLaterThan makes the loop due no later than that.
func (w *Wakeup) NoLaterThan(at time.Time) {
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

// In makes the loop due no later than after d.
func (w *Wakeup) In(d time.Duration) { w.NoLaterThan(time.Now().Add(d)) }

// BringForward makes the loop due no later than that, also if that is before the earliest: its
// reason to wait is over.
func (w *Wakeup) BringForward(at time.Time) {
	w.mu.Lock()
	if at.Before(w.earliest) {
		w.earliest = at
	}
	w.mu.Unlock()
	w.NoLaterThan(at)
}

// Wait returns when the moment has come: true, or when ctx has ended: false.
func (w *Wakeup) Wait(ctx context.Context) bool {
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
