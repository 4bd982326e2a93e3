package outputs

import (
	"context"
	"errors"
	"sync"

	"github.com/bursar/bursar/coordinator/election"
)

// lock is what the coordinators of a test stand for election by. The test can take it away.
type lock struct {
	mu      sync.Mutex
	holder  *term           // guarded by mu; nil: it is free
	leader  election.Leader // guarded by mu
	changed chan struct{}   // guarded by mu; closed when any of it changes
	barred  string          // guarded by mu: the URL of a coordinator that may not hold it
}

func newLock() *lock { return &lock{changed: make(chan struct{})} }

func (l *lock) changedLocked() {
	close(l.changed)
	l.changed = make(chan struct{})
}

// depose ends the leadership, and keeps the leader from another one.
func (l *lock) depose() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.holder != nil {
		l.barred = l.holder.url
		close(l.holder.over)
		l.holder, l.leader = nil, election.Leader{}
		l.changedLocked()
	}
}

// leads is the URL of the coordinator that leads and has said so; empty: none does.
func (l *lock) leads() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.leader.Epoch == 0 {
		return ""
	}
	return l.leader.URL
}

type candidate struct {
	*lock

	url string
}

func (candidate) Run(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

func (c candidate) Campaign(ctx context.Context) (election.Term, error) {
	for {
		c.mu.Lock()
		changed := c.changed
		if c.holder == nil && c.barred != c.url {
			mine := &term{c.lock, c.url, make(chan struct{})}
			c.holder, c.leader = mine, election.Leader{URL: c.url}
			c.changedLocked()
			c.mu.Unlock()
			return mine, nil
		}
		c.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (c candidate) Leader() (election.Leader, <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.leader, c.changed
}

type term struct {
	lock *lock
	url  string
	over chan struct{}
}

func (t *term) Over() <-chan struct{} { return t.over }

func (t *term) Announce(_ context.Context, epoch uint64, storeID string) error {
	t.lock.mu.Lock()
	defer t.lock.mu.Unlock()
	if t.lock.holder != t {
		return errors.New("the lock is lost")
	}
	t.lock.leader = election.Leader{URL: t.url, Epoch: epoch, StoreID: storeID}
	t.lock.changedLocked()
	return nil
}

func (t *term) Resign(context.Context) error {
	t.lock.mu.Lock()
	defer t.lock.mu.Unlock()
	if t.lock.holder == t {
		t.lock.holder, t.lock.leader = nil, election.Leader{}
		t.lock.changedLocked()
	}
	return nil
}
