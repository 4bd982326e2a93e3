package sim

import (
	"time"

	"github.com/bursar/bursar/coordinator/ledger"
)

// farSkew is how far the clocks of coordinators are off in some worlds: more than a world's quiet
// end lasts, and less than request ids are remembered.
const farSkew = 3 * time.Minute

// setClock draws how far the machine's time of day is off. In some worlds each start of the
// process sets it again.
func (c *coord) setClock() {
	if c.w.cfg.Seed%3 == 0 && c.w.crowd == nil && len(c.w.coords) > 1 {
		c.skew = []time.Duration{-farSkew, 0, 0, farSkew}[c.w.rng.IntN(4)] + c.w.between(0, 2*mostSkew) - mostSkew
		c.tellf("its clock is off by %s", c.skew)
	}
}

// ledgerTime is the time of its ledger.
func (c *coord) ledgerTime() ledger.Instant { return c.core.Time(c.instant()) }

// durations are the items of a leader's ledger that must end in time, each with its real start in
// this leadership: however wrong its clock is, and those of the leaders before it.
type durations struct {
	looked time.Time
	since  map[timed]time.Time
}

// timed is something that ends: a wait, a reservation, or the health of a silent host. Its start
// distinguishes it from the one after it.
type timed struct {
	what, id string
	start    ledger.Instant
}

// slack is what it may take longer: a tick, a check, and a stop in the middle of them.
const slack = 3 * time.Second

// checkDurations holds, in real time, that reservations and waits end, and that silent hosts do
// not stay healthy.
func (w *World) checkDurations(c *coord) {
	if c.paused || w.now.Sub(c.ends.looked) < 500*time.Millisecond {
		return
	}
	if w.now.Sub(c.ends.looked) > slack { // it was stopped
		c.ends.since = nil
	}
	before := c.ends.since
	c.ends = durations{looked: w.now, since: make(map[timed]time.Time)}
	check := func(what timed, lasts time.Duration) {
		began, known := before[what]
		if !known {
			began = w.now
		}
		c.ends.since[what] = began
		if took, most := w.now.Sub(began), lasts*10/9+slack; took > most {
			w.failf(7, "%s: the %s of %s has lasted for %s, by real time: want at most %s", c.name, what.what, what.id, took, most)
		}
	}
	l := c.core.Ledger()
	l.Allocations(0, func(a *ledger.Allocation) bool {
		switch {
		// What is due has its turn with the next commits, however slow they are.
		case l.Behind():
		case a.State == ledger.Reserved:
			if a.Revision <= c.durable { // else its time to live has not begun
				check(timed{"reservation", a.ID.String(), a.Expires}, max(a.ReservationTTL, times().Interval))
			}
		case a.State == ledger.Waiting:
			check(timed{"wait", a.ID.String(), a.WaitDeadline}, a.WaitDeadline.Sub(a.Created))
		}
		return true
	})
	l.Hosts("", func(h ledger.HostInfo) bool {
		if h.State == ledger.Healthy || h.State == ledger.Returning {
			check(timed{"silence", h.ID, h.LastSync}, 3*times().Interval)
		}
		return true
	})
}
