package client

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"
)

const (
	// quietFor is how long a coordinator may say nothing to anybody who waits for it before it is
	// asked whether it lives. Together with probeTimeout it is what a coordinator that hangs
	// costs: shorter finds that out sooner and asks more often. A thousand clients that wait ask
	// 600 times a second.
	quietFor = 1500 * time.Millisecond
	// probeTimeout is how long it may take to say so. A shorter one would give up a coordinator
	// that is only slow.
	probeTimeout = 1500 * time.Millisecond
)

// errHangs ends attempts at a coordinator that takes connections, or lets them time out, and
// answers nothing: its process was stopped, its machine is gone or cut off.
var errHangs = errors.New("it does not answer")

// liveness finds out which coordinators hang. A call may rightly wait for minutes, so its duration
// says nothing. While a call waits and nothing is heard, the coordinator is asked for something
// that costs it nothing.
type liveness struct {
	// probe asks a coordinator for a sign of life; any answer is one.
	probe func(ctx context.Context, url string) error
	// hangs is called with the URL of one that gave none.
	hangs func(url string)

	closed    context.Context //nolint:containedctx // lives as long as the client
	stop      context.CancelFunc
	running   sync.WaitGroup
	mu        sync.Mutex
	byAddress map[string]*coordinatorLiveness // guarded by mu; those that somebody waits for
}

// coordinatorLiveness is what was heard of one coordinator. Its fields are guarded by liveness.mu.
type coordinatorLiveness struct {
	attempts map[*attempt]struct{}
	// silent: an attempt has ended by its own deadline without an answer. It still has to be found
	// out whether that deadline was too short or nobody answers there. Otherwise calls with short
	// deadlines would never go elsewhere.
	silent    bool
	lastHeard time.Time // the last sign of life, or when somebody began to wait for one
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

// begin watches over an attempt until its end. The attempt is canceled with errHangs if its
// coordinator hangs.
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

// markAlive takes note of a sign of life.
func (a *attempt) markAlive() {
	a.liveness.mu.Lock()
	defer a.liveness.mu.Unlock()
	a.answered = true
	a.coordinator.lastHeard, a.coordinator.silent = time.Now(), false
}

// end is the end of the attempt; further ones do nothing.
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

// armLocked has the coordinator looked at later.
func (l *liveness) armLocked(url string, c *coordinatorLiveness, after time.Duration) {
	// clients do not ask in step
	after = time.Duration(float64(after) * (0.9 + 0.2*rand.Float64()))
	time.AfterFunc(after, func() { l.check(url, c) })
}

// check asks a coordinator for a sign of life if an attempt lacks one, and does so again later.
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

// close ends the watching and waits for it.
func (l *liveness) close() {
	l.mu.Lock()
	l.stop()
	l.mu.Unlock()
	l.running.Wait()
}
