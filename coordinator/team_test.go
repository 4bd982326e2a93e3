package coordinator

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/bursar/bursar/coordinator/election"
	"github.com/bursar/bursar/coordinator/store"
	"github.com/bursar/bursar/coordinator/store/storetest"
)

// fakeElection is an election among the coordinators of a test: one lock, which the test can take
// away.
type fakeElection struct {
	mu      sync.Mutex
	holder  *fakeTerm       // guarded by mu; nil: the lock is free
	leader  election.Leader // guarded by mu
	changed chan struct{}   // guarded by mu; closed when any of it changes
	barred  map[string]bool // guarded by mu: who may not win, by URL
	// pinned is the leader as each coordinator sees it, by that coordinator's URL; guarded by mu.
	pinned map[string]string
}

func newFakeElection() *fakeElection {
	return &fakeElection{changed: make(chan struct{}), barred: make(map[string]bool), pinned: make(map[string]string)}
}

func (e *fakeElection) changedLocked() {
	close(e.changed)
	e.changed = make(chan struct{})
}

// takeAway ends the term of the holder of the lock, as Consul would.
func (e *fakeElection) takeAway() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.holder != nil {
		close(e.holder.over)
		e.freeLocked()
	}
}

func (e *fakeElection) freeLocked() {
	e.holder, e.leader = nil, election.Leader{}
	e.changedLocked()
}

// bar keeps a coordinator from winning, or lets it again.
func (e *fakeElection) bar(url string, barred bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.barred[url] = barred
	e.changedLocked()
}

// candidate is one coordinator's part.
type candidate struct {
	*fakeElection

	self Self
}

type fakeTerm struct {
	election *fakeElection
	url      string
	over     chan struct{}
}

func (*candidate) Run(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

func (c *candidate) Campaign(ctx context.Context) (election.Term, error) {
	for {
		c.mu.Lock()
		changed := c.changed
		if c.holder == nil && !c.barred[c.self.URL] {
			c.holder = &fakeTerm{election: c.fakeElection, url: c.self.URL, over: make(chan struct{})}
			c.leader = election.Leader{URL: c.self.URL}
			c.changedLocked()
			term := c.holder
			c.mu.Unlock()
			return term, nil
		}
		c.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (c *candidate) Leader() (election.Leader, <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if url, pinned := c.pinned[c.self.URL]; pinned {
		return election.Leader{URL: url}, c.changed
	}
	return c.leader, c.changed
}

func (t *fakeTerm) Over() <-chan struct{} { return t.over }

func (t *fakeTerm) Announce(_ context.Context, epoch uint64, storeID string) error {
	t.election.mu.Lock()
	defer t.election.mu.Unlock()
	if t.election.holder != t {
		return errors.New("the lock is lost")
	}
	t.election.leader = election.Leader{URL: t.url, Epoch: epoch, StoreID: storeID}
	t.election.changedLocked()
	return nil
}

func (t *fakeTerm) Resign(context.Context) error {
	t.election.mu.Lock()
	defer t.election.mu.Unlock()
	if t.election.holder == t {
		t.election.freeLocked()
	}
	return nil
}

// team is several coordinators on one store.
type team struct {
	*fakeElection

	t       *testing.T
	memory  *storetest.Memory
	members []*fixture
}

func startTeam(t *testing.T, size int, wrap ...func(member int, s store.Store) store.Store) *team {
	t.Helper()
	m := &team{fakeElection: newFakeElection(), t: t, memory: storetest.NewMemory("shared")}
	for i := range size {
		s := m.memory.Open()
		for _, w := range wrap {
			s = w(i, s)
		}
		m.members = append(m.members, m.join(s))
	}
	m.led()
	return m
}

// join starts one more member.
func (m *team) join(s store.Store) *fixture {
	return start(m.t, Config{Limits: Limits{CommitTimeout: time.Second}}, s, func(server *Server) {
		server.elect = func(self Self) (election.Election, error) {
			return &candidate{fakeElection: m.fakeElection, self: self}, nil
		}
	})
}

// led waits until somebody leads, and returns that one and the others.
func (m *team) led() (leader *fixture, standbys []*fixture) {
	m.t.Helper()
	eventually(m.t, "somebody leads, and everybody knows", func() bool {
		leader, standbys = nil, nil
		m.mu.Lock()
		announced := m.leader
		m.mu.Unlock()
		// nobody has led since the lock was free, even if one has not noticed yet
		if announced.Epoch == 0 {
			return false
		}
		for _, f := range m.members {
			if f.url == announced.URL && f.server.loop.Leading() {
				leader = f
			} else {
				standbys = append(standbys, f)
			}
		}
		if leader == nil {
			return false
		}
		for _, f := range standbys {
			if !isOver(f.server.loop.Ended()) && f.server.peers.Route().URL != leader.url {
				return false
			}
		}
		return true
	})
	return leader, standbys
}

// probed is the status of GET /readyz.
func (f *fixture) probed() int {
	f.tb.Helper()
	code, _ := f.fetch(http.MethodGet, "/readyz", "")
	return code
}

// soon is a deadline that no test's call comes near.
const soon = 20 * time.Second

// isOver reports whether a channel is closed.
func isOver(ended <-chan struct{}) bool {
	select {
	case <-ended:
		return true
	default:
		return false
	}
}
