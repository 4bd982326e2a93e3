package sim

import (
	"strings"
	"time"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/internal/identity"
)

// countingPlacer counts how often it is asked for a host. A request that is tried asks once, if its
// quotas allow it; one for which a hold is looked for asks for the closest host as well.
type countingPlacer struct {
	ledger.Placer
	asked *int
}

// Choose implements ledger.Placer.
func (p *countingPlacer) Choose(q ledger.Query) ledger.Slot {
	*p.asked++
	return p.Placer.Choose(q)
}

// Closest implements ledger.Placer.
func (p *countingPlacer) Closest(q ledger.Query) ledger.Slot {
	*p.asked++
	return p.Placer.Closest(q)
}

const (
	// explained is how many waiting requests are explained at a time: all of them in a minute or
	// two.
	explained = 32
	// mostLooked is how often one step may ask for a host, next to what it grants: 64 requests are
	// tried in vain, and 64 starved ones visited, twice, each of which tries up to 10 hosts.
	mostLooked = 64 + 2*64*10
	// usuallyLooked is how often a heartbeat may do so on average.
	usuallyLooked = 128
)

// crowdChecks is what is known of a crowd's ledgers.
type crowdChecks struct {
	looked     int // how often placers were asked
	batches    int
	heartbeats int
	looks      int // in heartbeats
	mostLooks  int // in one of them

	steps     int // of the ledger without a pause
	mostSteps int
	going     bool // a step is due

	lastLook  time.Time
	lastAudit time.Time
	next      ledger.ID // that was explained last
	waited    int       // the most who waited at a time
	slowest   time.Duration

	windows    map[string]hold              // by account
	latest     map[ledger.ID]ledger.Instant // the end of the last window of a request
	hadWindows map[ledger.ID]int
	holds      int
}

// hold is a hold of an account, as it was seen.
type hold struct {
	by    ledger.ID
	until ledger.Instant
}

// leader is the coordinator that leads; nil: none, or it is stopped.
func (w *World) leader() *coord {
	for _, c := range w.coords {
		if c.up() && c.core.Leading() && !c.paused && c.leadership == w.store.known.leadership {
			return c
		}
	}
	return nil
}

// check runs after every event.
func (c *crowd) check() {
	l := c.w.leader()
	if l == nil {
		c.steps = 0
		return
	}
	c.goOn(l)
	if c.going || c.w.now.Sub(c.lastLook) < 250*time.Millisecond {
		return
	}
	c.lastLook = c.w.now
	c.checkHolds(l)
	c.checkWaiting(l)
	c.checkLarge()
	if c.w.now.Sub(c.lastAudit) >= 5*time.Second {
		c.lastAudit = c.w.now
		for _, v := range l.core.Ledger().Audit() {
			c.w.failf(v.Invariant, "%s: %s", l.name, v.Message)
		}
	}
}

// goOn lets the ledger go on with what is due at once, as a coordinator does, and counts its steps.
// Each step tries 64 requests, or 8 of each share: it is over when it has tried all who wait.
func (c *crowd) goOn(l *coord) {
	due, set := l.core.Ledger().NextTimer()
	switch {
	case c.going:
	case !set || due > l.ledgerTime():
		c.steps = 0
	default:
		c.steps++
		c.mostSteps = max(c.mostSteps, c.steps)
		if most := 100 + c.w.cfg.Kinds/4; c.steps > most {
			c.w.failf(7, "%s: there is something to do at once after %d steps; want an end after %d", l.name, c.steps, most)
		}
		c.going = true
		c.w.after(0, "", func() {
			c.going = false
			l.wake(l.incarnation, func() {
				l.advance()
				l.pumpSoon()
			})
		})
	}
}

// heartbeat holds that a heartbeat looks at few requests, however many wait.
func (c *crowd) heartbeat(l *coord, serve func()) {
	before, reserved := c.looked, 0
	if l.core.Leading() {
		reserved = l.core.Ledger().Counts().Reserved
	}
	serve()
	if !l.up() || !l.core.Leading() {
		return
	}
	looked := c.looked - before - max(0, l.core.Ledger().Counts().Reserved-reserved)
	c.heartbeats++
	c.looks += looked
	c.mostLooks = max(c.mostLooks, looked)
	if looked > 2*mostLooked { // what was due before it is a step of its own
		c.w.failf(11, "a heartbeat has asked for a host %d times, next to what it granted", looked)
	}
}

// sums reports whether the rows of a batch are compared with its ledger: that takes a look at all.
func (c *crowd) sums() bool {
	c.batches++
	return c.batches%256 == 0
}

// checkWaiting holds that nobody waits who fits: whatever made room has woken whom it was enough
// for. The ledger has nothing to do at this moment.
func (c *crowd) checkWaiting(l *coord) {
	book := l.core.Ledger()
	c.waited = max(c.waited, book.Counts().Waiting)
	if book.Behind() {
		return
	}
	var ids []ledger.ID
	last := ledger.ID(0)
	book.Allocations(c.next, func(a *ledger.Allocation) bool {
		last = a.ID
		if a.State == ledger.Waiting && !strings.HasPrefix(a.Reason, ledger.ReasonVetoed) {
			ids = append(ids, a.ID)
		}
		return len(ids) < explained
	})
	if c.next = last; len(ids) < explained {
		c.next = 0
	}
	for _, id := range ids {
		x, err := book.ExplainID(l.ledgerTime(), id, identity.Actor{})
		if err != nil || x.Allocation.State != ledger.Waiting {
			continue // its time has come just now
		}
		if x.Verdict == ledger.Fits {
			c.w.failf(7, "%s: %s, %s, waits and could go ahead on %s", l.name, id, x.Allocation.Labels, x.HostID)
		}
		if x.BlockedBy != nil && !strings.Contains(x.Allocation.Reason, x.BlockedBy.String()) {
			c.w.failf(12, "%s: %s is blocked by %s and says that it %s", l.name, id, x.BlockedBy, x.Allocation.Reason)
		}
	}
}

// bound is how long a large request may wait, if nothing goes wrong. It is starved after two looks.
// It has its windows, with the pauses between them, until one is as long as its need takes to
// drain. One host of the world is held at a time, so that each request that needs a host may have
// to wait for the other. And what it needs may be held for one of the crowd before, and rest then.
func (c *crowd) bound() time.Duration {
	const onHosts = 2
	longest, before := times().StarvationAfter, time.Duration(0)
	for ; longest < longestLife; longest *= 2 {
		before += 2 * longest
	}
	return 2*times().StarvationAfter + onHosts*(before+longest) + 2*longest
}

// checkLarge holds that a large request is granted within the bound.
func (c *crowd) checkLarge() {
	for _, j := range c.large {
		if j.granted || j.asked.IsZero() {
			continue
		}
		since := j.asked
		if since.Before(c.quiet) {
			since = c.quiet
		}
		waited := c.w.now.Sub(since)
		c.slowest = max(c.slowest, waited)
		if waited > c.bound()*10/9 { // a skew of clocks makes the ledger's time a tenth slower
			c.w.failf(12, "%s waits for %s; want at most %s, as what it needs ends within %s", j.command.RequestID, waited, c.bound(), longestLife)
		}
	}
}

// checkHolds holds that every hold ends: in the end, and each window as the rule says,
// StarvationAfter for a request's first, and twice as long for each one after it.
func (c *crowd) checkHolds(l *coord) {
	book, now := l.core.Ledger(), l.ledgerTime()
	look := func(a *ledger.AccountInfo) {
		name := a.Name.String()
		before := c.windows[name]
		if a.HeldFor == 0 {
			if before.by != 0 {
				c.w.tellf("%s: %s is no longer held", l.name, name)
			}
			delete(c.windows, name)
			return
		}
		if before.by != a.HeldFor || before.until != a.HeldUntil {
			c.windows[name] = hold{a.HeldFor, a.HeldUntil}
			by, _ := book.Get(a.HeldFor)
			c.w.tellf("%s: %s is held for %s until %s, keeps %s", l.name, name, by.RequestID, a.HeldUntil.Time().Sub(start()), a.Kept)
			if c.latest[a.HeldFor] != a.HeldUntil {
				c.latest[a.HeldFor] = a.HeldUntil
				c.holds++
				c.hadWindows[a.HeldFor]++
			}
			if lasts, most := a.HeldUntil.Sub(now), times().StarvationAfter<<min(20, c.hadWindows[a.HeldFor]); lasts > most {
				c.w.failf(12, "%s: %s is held for %s for %s more; want at most %s, as of its window number %d",
					l.name, name, a.HeldFor, lasts, most, c.hadWindows[a.HeldFor])
			}
		}
		if a.HeldUntil < now.Add(-slack) {
			c.w.failf(12, "%s: %s is held for %s until %d, and it is %d", l.name, name, a.HeldFor, a.HeldUntil, now)
		}
	}
	book.Hosts("", func(h ledger.HostInfo) bool {
		look(&h.Account)
		return true
	})
	book.QuotaAccounts("", func(_ string, a ledger.AccountInfo) bool {
		look(&a)
		return true
	})
}

// checkEnd holds that the world did what it is for, and that nothing is held when nobody waits.
func (c *crowd) checkEnd(l *ledger.Ledger) {
	for _, j := range c.large {
		if !j.granted {
			c.w.failf(7, "%s was never granted", j.command.RequestID)
		}
	}
	if c.waited < c.w.cfg.Kinds*4/5 || c.holds < 10 || c.heartbeats < 1000 || c.started < 500 {
		c.w.failf(0, "the world does not do what it is for: %d waited at a time; %d holds, %d heartbeats, %d engines", c.waited, c.holds, c.heartbeats, c.started)
	}
	if c.looks > usuallyLooked*c.heartbeats {
		c.w.failf(11, "%d heartbeats have asked for a host %d times, next to what they granted; want at most %d each", c.heartbeats, c.looks, usuallyLooked)
	}
	if held := l.Counts().Held; len(held) > 0 {
		c.w.failf(12, "nobody waits, and there are holds: %v", held)
	}
}
