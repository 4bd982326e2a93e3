package sim

import (
	"errors"
	"time"

	"github.com/bursar/bursar/coordinator/core"
	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/store"
)

// begin starts to lead in a term.
func (c *coord) begin(t *term) {
	c.term, c.campaigning = t, 0
	c.tellf("has the lock")
	c.lead()
}

// led is the result of a Lead and the Load after it.
type led struct {
	meta       store.Meta
	snapshot   ledger.Snapshot
	leadership uint64
	err        error
}

// errTermOver says that a leadership was not begun because its term was over.
var errTermOver = errors.New("the term is over")

// lead begins a leadership in the store, with what is stored there.
func (c *coord) lead() {
	if c.leading || c.core.Leading() || c.stopping {
		return
	}
	if c.term == nil || c.term.over() {
		c.stepDown("its term is over")
		return
	}
	c.leading = true
	t, done := c.term, false
	finish := func(o led) {
		if done {
			return
		}
		done = true
		c.leading = false
		if o.err == nil && c.term != t {
			o.err = errTermOver
		}
		if o.err == nil {
			o.err = c.start(&o)
		}
		if o.err != nil {
			c.stepDown(o.err.Error()) // somebody else may have more luck
		}
	}
	c.w.store.lead(c, c.atLeast, finish)
	c.then(leadTimeout, func() { finish(led{err: store.ErrIO}) })
}

// leadTimeout is how long a Lead may take.
const leadTimeout = 5 * time.Second

// start begins a leadership with what was loaded.
func (c *coord) start(o *led) error {
	if o.meta.Epoch <= c.lastEpoch || o.meta.Epoch < c.atLeast {
		c.w.failf(6, "%s leads in epoch %d after %d, at least %d was wanted", c.name, o.meta.Epoch, c.lastEpoch, c.atLeast)
	}
	live := o.snapshot.Live()
	if err := c.core.Lead(c.instant(), o.meta, o.snapshot); err != nil {
		c.w.failf(4, "%s cannot lead with what is stored: %v", c.name, err)
		return err
	}
	c.beginRules()
	c.lastEpoch, c.leadership = o.meta.Epoch, o.leadership
	c.granted, c.audited, c.durable = c.core.Ledger().Revision(), 0, c.core.Ledger().Revision()
	c.w.tally.Leaderships++
	c.tellf("leads in epoch %d with %d allocations at revision %d", o.meta.Epoch, live, o.snapshot.Revision)
	for _, a := range tenants(c.core.Ledger()) {
		c.parts[a.ID] = a.Entitled.External
	}
	c.ledAt, c.ends = c.ledgerTime(), durations{}
	c.follow()
	c.term.announce(o.meta.Epoch, o.meta.StoreID)
	c.pumpSoon()
	c.recall(c.core.Leadership(), store.Position{})
	return nil
}

// drop ends a leadership. A commit that is under way continues; those who wait for it are told now
// that the outcome is unknown, or learn the outcome later. Whatever the store is put back to, the
// next epoch of this process is higher.
func (c *coord) drop(err error) {
	if !c.core.Leading() {
		return
	}
	c.tellf("ends epoch %d: %v", c.core.Meta().Epoch, err)
	c.atLeast = max(c.atLeast, c.core.Meta().Epoch+1)
	c.core.Drop(err)
	c.forgetClusters()
	if f := c.inFlight; f != nil {
		c.inFlight = nil
		if c.w.chance(2) {
			f.batch.Answer(err)
		}
	}
}

// abandon ends a leadership whose ledger may differ from the store. Another one follows in the
// same term, unless the coordinator was deposed: then somebody else has been elected.
func (c *coord) abandon(err error) {
	c.drop(err)
	if errors.Is(err, store.ErrDeposed) {
		c.stepDown("it was deposed")
		return
	}
	c.then(c.w.between(0, 100*time.Millisecond), c.lead)
}

// stepDown ends the term, and campaigns for another one.
func (c *coord) stepDown(why string) {
	c.drop(core.ErrNotLeading)
	t := c.term
	if t == nil {
		return
	}
	c.tellf("steps down: %s", why)
	c.term = nil
	t.resign()
	c.then(c.w.between(0, time.Second), func() {
		if c.term == nil && c.campaigning == 0 {
			c.election.campaign()
		}
	})
}
