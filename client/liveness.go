package client

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"
)

const (
	// quietFor is how long a coordinator may be silent while a call waits for it before it is
	// probed. Together with probeTimeout it is the cost of a hanging coordinator: a shorter time
	// detects it sooner and probes more often. A thousand waiting clients probe 600 times a second.
	quietFor = 1500 * time.Millisecond
	// probeTimeout bounds a probe. A shorter one would give up a coordinator that is only slow.
	probeTimeout = 1500 * time.Millisecond
)

// errHangs ends attempts at a coordinator that accepts connections, or lets them time out, and does
// not answer: its process is stopped, or its machine is down or cut off.
var errHangs = errors.New("it does not answer")

// liveness detects hanging coordinators. A call may wait for minutes, so its duration does not show
// that. While a call waits and nothing arrives, the coordinator gets a cheap request.
type liveness struct {
	// probe requests a sign of life from a coordinator; any answer counts.
	probe func(ctx context.Context, url string) error
	// hangs is called with the URL of a coordinator that did not answer a probe.
	hangs func(url string)

	closed    context.Context //nolint:containedctx // lives as long as the client
	stop      context.CancelFunc
	running   sync.WaitGroup
	mu        sync.Mutex
	byAddress map[string]*coordinatorLiveness // guarded by mu; coordinators that a call waits for
}

// coordinatorLiveness is the state of one coordinator. Its fields are guarded by liveness.mu.
type coordinatorLiveness struct {
	attempts map[*attempt]struct{}
	// silent: an attempt reached its own deadline without an answer. A probe must show whether that
	// deadline was too short or nobody answers. Otherwise calls with short deadlines would never go
	// to another coordinator.
	silent    bool
	lastHeard time.Time // the last sign of life, or when a call began to wait for one
}

// attempt is one call at one coordinator.
type attempt struct {
	liveness    *liveness
	coordinator *coordinatorLiveness
	cancel      context.CancelCauseFunc

	answered, over bool // guarded by liveness.mu
}

func newLiveness(probe func(context.Context, string) error, hangs func(url string)) *liveness {
	l := &liveness{probe: probe, hangs: hangs, byAddress: make(map[string]*coordinatorLiveness)}
	l.closed, l.stop = context.WithCancel(context.Background())
	return l
}

// begin watches an attempt until its end, and cancels it with errHangs if its coordinator hangs.
func (l *liveness) begin(url string, cancel context.CancelCauseFunc) *attempt {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.byAddress[url]
	if c == nil {
		c = &coordinatorLiveness{attempts: make(map[*attempt]struct{})}
		l.byAddress[url] = c
		l.armLocked(url, c, quietFor)
	}
	if len(c.attempts) == 0 && !c.silent {
		c.lastHeard = time.Now()
	}
	a := &attempt{liveness: l, coordinator: c, cancel: cancel}
	c.attempts[a] = struct{}{}
	return a
}

// markAlive records a sign of life.
func (a *attempt) markAlive() {
	a.liveness.mu.Lock()
	defer a.liveness.mu.Unlock()
	a.answered = true
	a.coordinator.lastHeard, a.coordinator.silent = time.Now(), false
}

// end ends the attempt; further calls do nothing.
func (a *attempt) end() {
	a.liveness.mu.Lock()
	a.endLocked()
	a.liveness.mu.Unlock()
	a.cancel(context.Canceled)
}

func (a *attempt) endLocked() {
	if a.over {
		return
	}
	a.over = true
	a.coordinator.silent = a.coordinator.silent || !a.answered
	delete(a.coordinator.attempts, a)
}

// armLocked schedules a check of the coordinator.
func (l *liveness) armLocked(url string, c *coordinatorLiveness, after time.Duration) {
	// random, so that clients do not probe at the same time
	after = time.Duration(float64(after) * (0.9 + 0.2*rand.Float64()))
	time.AfterFunc(after, func() { l.check(url, c) })
}

// check probes a coordinator if an attempt lacks a sign of life, and schedules the next check.
func (l *liveness) check(url string, c *coordinatorLiveness) {
	l.mu.Lock()
	quiet := time.Since(c.lastHeard)
	switch {
	case l.closed.Err() != nil, len(c.attempts) == 0 && !c.silent:
		delete(l.byAddress, url)
		l.mu.Unlock()
		return
	case quiet < quietFor*8/10:
		l.armLocked(url, c, quietFor-quiet)
		l.mu.Unlock()
		return
	}
	l.running.Add(1)
	defer l.running.Done()
	l.mu.Unlock()

	ctx, cancel := context.WithTimeout(l.closed, probeTimeout)
	defer cancel()
	err := l.probe(ctx, url)

	l.mu.Lock()
	switch {
	case l.closed.Err() != nil:
		delete(l.byAddress, url)
		l.mu.Unlock()
		return
	case err == nil:
		c.lastHeard, c.silent = time.Now(), false
		l.armLocked(url, c, quietFor)
		l.mu.Unlock()
		return
	}
	waiting := c.attempts
	c.attempts = make(map[*attempt]struct{})
	delete(l.byAddress, url)
	l.mu.Unlock()
	l.hangs(url)
	for a := range waiting {
		a.cancel(errHangs)
	}
}

// close ends the checks and waits for the running ones.
func (l *liveness) close() {
	l.mu.Lock()
	l.stop()
	l.mu.Unlock()
	l.running.Wait()
}
