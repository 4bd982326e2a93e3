package election

import (
	"sync"
	"time"
)

// lease is the length of a term by this machine's own clock: ttl − margin from the start of the
// last renewal. The check in Consul's agent fails ttl after a renewal reached it, which is after
// its start. So the lease has ended before another coordinator can lead, by the margin at least. An
// ended lease stays ended: a late renewal, from a process that was stopped, does not count.
//
// Go's clock goes on while a process is stopped, but may stand still while a machine sleeps. Then
// the store's epoch protects the store.
type lease struct {
	length time.Duration
	onEnd  func() // called once, at its end, without the lock

	mu    sync.Mutex // guards the fields below
	until time.Time
	timer *time.Timer
	over  chan struct{}
	ended bool
}

// margin is the difference between the TTL and the lease: for a clock that runs slower than
// Consul's, and to stop work in flight.
func margin(ttl time.Duration) time.Duration { return ttl / 10 }

// newLease starts a lease that was last renewed at start, and may be over already. onEnd is called
// when it ends.
func newLease(ttl time.Duration, start time.Time, onEnd func()) *lease {
	l := &lease{length: ttl - margin(ttl), onEnd: onEnd, over: make(chan struct{})}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.until = start.Add(l.length)
	l.timer = time.AfterFunc(time.Until(l.until), l.onTimer)
	return l
}

// renew extends the lease to another length from start on. It never shortens it. It reports whether
// the lease goes on.
func (l *lease) renew(start time.Time) bool {
	l.mu.Lock()
	if l.ended {
		l.mu.Unlock()
		return false
	}
	if lapsed(l.until, time.Now()) {
		l.mu.Unlock()
		l.end()
		return false
	}
	defer l.mu.Unlock()
	if until := start.Add(l.length); until.After(l.until) {
		l.until = until
		l.timer.Reset(time.Until(until))
	}
	return true
}

// onTimer is called by the timer: the lease may have been renewed meanwhile.
func (l *lease) onTimer() {
	l.mu.Lock()
	due := lapsed(l.until, time.Now())
	l.mu.Unlock()
	if due {
		l.end()
	}
}

func lapsed(until, now time.Time) bool { return !now.Before(until) }

// end ends the lease now.
func (l *lease) end() {
	l.mu.Lock()
	if l.ended {
		l.mu.Unlock()
		return
	}
	l.ended = true
	l.timer.Stop()
	close(l.over)
	l.mu.Unlock()
	l.onEnd()
}
