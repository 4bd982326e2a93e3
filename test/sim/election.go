package sim

import (
	"time"

	"github.com/bursar/bursar/coordinator/election"
)

// lockTTL is the least time that Consul keeps a lock whose holder is silent; at most it is twice
// that.
const lockTTL = 3 * time.Second

// consul is the one lock that says who may lead, with what its holder has written next to it.
type consul struct {
	w      *World
	down   bool
	holder uint64 // the session that has the lock; 0: none
	ends   time.Time
	leader election.Leader
	last   uint64 // the session that was given out last
}

// expire releases a lock that was not renewed in time.
func (s *consul) expire() {
	if s.holder != 0 && s.w.now.After(s.ends) {
		s.w.tellf("consul: the session of %s has ended", s.leader.URL)
		s.holder, s.leader = 0, election.Leader{}
	}
}

func (s *consul) extend() { s.ends = s.w.now.Add(lockTTL + s.w.between(0, lockTTL)) }

// acquire gives a session the lock, if it is free.
func (s *consul) acquire(session uint64, url string) bool {
	if s.expire(); s.holder == 0 {
		s.holder, s.leader = session, election.Leader{URL: url}
		s.extend()
	}
	return s.holder == session
}

// renew reports whether the session still has the lock.
func (s *consul) renew(session uint64) bool {
	if s.expire(); s.holder != session {
		return false
	}
	s.extend()
	return true
}

func (s *consul) release(session uint64) {
	if s.holder == session {
		s.holder, s.leader = 0, election.Leader{}
	}
}

// restart takes Consul away for a while. It keeps its sessions, and counts their time from the
// start again.
func (s *consul) restart(d time.Duration) {
	if s.down {
		return
	}
	s.w.tellf("consul is away for %s", d)
	s.down = true
	s.w.after(d, "consul is back", s.mend)
}

func (s *consul) mend() {
	if s.down {
		s.down = false
		s.extend()
	}
}

// candidate is a coordinator's side of the election. It is what Election and Term are in
// production, with callbacks instead of channels.
type candidate struct {
	c *coord
	// alone leads always.
	alone bool
	// known is the leader when Consul was last reached.
	known election.Leader
}

// ask sends a question to Consul and takes the answer, if both ways are open.
func (e *candidate) ask(question func(s *consul) bool, then func(bool)) {
	c, incarnation := e.c, e.c.incarnation
	s := c.w.consul
	reached := func() bool { return !s.down && !c.cutConsul }
	c.w.after(c.w.latency(), "", func() {
		if !reached() {
			return
		}
		verdict := question(s)
		c.w.after(c.w.latency(), "", func() {
			if reached() {
				c.wake(incarnation, func() { then(verdict) })
			}
		})
	})
}

// campaign begins a term as soon as it can.
func (e *candidate) campaign() {
	c := e.c
	if e.alone {
		c.begin(&term{c: c, forever: true})
		return
	}
	c.w.consul.last++
	e.try(c.w.consul.last)
}

// try asks for the lock until it gets it. During that no other campaign of the same coordinator
// runs.
func (e *candidate) try(session uint64) {
	c := e.c
	asked, given := c.w.now, false
	e.ask(func(s *consul) bool { return s.acquire(session, c.name) }, func(ok bool) {
		if !ok || c.term != nil || c.campaigning != session {
			return
		}
		given = true
		t := &term{c: c, session: session, renewed: asked}
		c.begin(t)
		t.keep()
	})
	c.campaigning = session
	c.then(c.w.between(200*time.Millisecond, 800*time.Millisecond), func() {
		if !given && c.term == nil && c.campaigning == session {
			e.try(session)
		}
	})
}

// watch follows who leads. As long as Consul cannot be reached, it keeps the last leader.
func (e *candidate) watch() {
	if e.alone {
		e.known = election.Leader{URL: e.c.name}
		return
	}
	var seen election.Leader
	e.ask(func(s *consul) bool { s.expire(); seen = s.leader; return true }, func(bool) { e.known = seen })
	e.c.then(e.c.w.between(200*time.Millisecond, 800*time.Millisecond), e.watch)
}

// leader is the coordinator that is believed to lead; nil: no leader is known.
func (e *candidate) leader() *coord {
	for _, c := range e.c.w.coords {
		if c.name == e.known.URL {
			return c
		}
	}
	return nil
}

// term is the time in which a coordinator may lead, as far as it knows.
type term struct {
	c       *coord
	session uint64
	forever bool
	// renewed is when the last renewal that succeeded was sent.
	renewed time.Time
	lost    bool // Consul has said so
}

// keep renews the lock again and again, and checks whether that was too late. It does not check at
// once: a coordinator that was stopped may do a few things before it knows.
func (t *term) keep() {
	c := t.c
	c.then(c.w.between(lockTTL/4, lockTTL/3), func() {
		if c.term != t {
			return
		}
		asked := c.w.now
		c.election.ask(func(s *consul) bool { return s.renew(t.session) }, func(ok bool) {
			if ok {
				t.renewed = asked
			} else {
				t.lost = true
			}
		})
		t.keep()
	})
	c.then(c.w.between(100*time.Millisecond, time.Second), func() {
		if c.term == t && t.over() {
			c.stepDown("its term is over")
		}
	})
}

// over reports whether the lock is lost, or could belong to another by this coordinator's own
// clock, which may be slow.
func (t *term) over() bool {
	elapsed := time.Duration(float64(t.c.w.now.Sub(t.renewed)) * t.c.rate)
	return !t.forever && (t.lost || elapsed >= lockTTL)
}

// announce announces that the leadership has begun.
func (t *term) announce(epoch uint64, storeID string) {
	leader := election.Leader{URL: t.c.name, Epoch: epoch, StoreID: storeID}
	t.c.election.ask(func(s *consul) bool {
		if s.holder == t.session {
			s.leader = leader
		}
		return true
	}, func(bool) {})
}

// resign ends the term.
func (t *term) resign() {
	if !t.forever {
		t.c.election.ask(func(s *consul) bool { s.release(t.session); return true }, func(bool) {})
	}
}
