package election

import (
	"sync"
	"time"
)

// lease is how long a term lasts by this machine's own clock: ttl − margin from the start of the
// last renewal. The check in Consul's agent fails ttl after a renewal reached it, which is after
// its start. So the lease has ended before anybody else can lead, by the margin at least. A lease
// that has ended stays so: a late renewal, from a process that was stopped, does not count.
//
// Go's clock goes on while a process is stopped, but may stand still while a machine sleeps; for
// that there is the store's epoch.
type lease struct {
	length time.Duration
	onEnd  func() // called once, when it has ended, without the lock

	mu    sync.Mutex // guards what follows
	until time.Time
	timer *time.Timer
	over  chan struct{}
	ended bool
}

// margin is by how much the lease is shorter than the TTL: for a clock that runs slower than
// Consul's, and to stop what is under way.
func margin(ttl time.Duration) time.Duration { return ttl / 10 }

// newLease starts one that was last renewed at start, which may be over already. onEnd is called
// when it ends.
func newLease(ttl time.Duration, start time.Time, onEnd func()) *lease {
	l := &lease{length: ttl - margin(ttl), onEnd: onEnd, over: make(chan struct{})}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.until = start.Add(l.length)
	l.timer = time.AfterFunc(time.Until(l.until), l.onTimer)
	return l
}

// renew makes it last for another length from start on, which never shortens it. It returns
// whether the lease goes on.
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

// onTimer is the timer's: the lease may have been renewed in the meantime.
func (l *lease) onTimer() {
	l.mu.Lock()
	due := lapsed(l.until, time.Now())
	l.mu.Unlock()
	if due {
		l.end()
	}
}

func lapsed(until, now time.Time) bool { return !now.Before(until) }

// end ends it now.
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
