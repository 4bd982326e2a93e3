package sim

import (
	"errors"
	"time"

	"github.com/bursar/bursar/coordinator/core"
	"github.com/bursar/bursar/coordinator/store"
)

// commitTimeout is when a coordinator gives up a commit.
const commitTimeout = 4 * time.Second

// inFlight is a batch on its way to the store.
type inFlight struct {
	batch      *core.Batch
	leadership uint64 // that it was made in
	sum        uint64 // over the ledger behind it, if it is summed
	summed     bool
	rules      map[string]string // that are stored, by the ledger behind it
}

// pumpSoon puts what arrives within a moment into one batch. It checks the grants first: the
// process may stop here.
func (c *coord) pumpSoon() {
	c.w.callers.checkGrants(c)
	if c.pumping {
		return
	}
	c.pumping = true
	c.hiccup("after a command")
	c.then(c.w.between(0, 500*time.Microsecond), func() {
		c.pumping = false
		c.pump()
	})
}

// pump begins the next commit.
func (c *coord) pump() {
	if c.inFlight != nil || !c.core.Leading() {
		return
	}
	b := c.core.Take()
	if b == nil {
		return
	}
	c.w.said.batch(&b.Batch)
	c.checkRules()
	f := &inFlight{batch: b, leadership: c.leadership, rules: c.rules.stored}
	if f.summed = c.w.crowd == nil || c.w.crowd.sums(); f.summed {
		f.sum = ledgerSum(c.core.Ledger())
	}
	c.inFlight = f
	c.hiccup("before a commit")
	c.then(c.w.between(0, 100*time.Microsecond), func() {
		c.w.store.commit(c, f, func(err error) {
			c.hiccup("after a commit")
			c.then(0, func() { c.finishCommit(f, err) })
		})
		c.then(commitTimeout, func() { c.finishCommit(f, store.ErrUnknownOutcome) })
	})
}

// finishCommit answers those who wait for a commit. Only the first outcome counts.
func (c *coord) finishCommit(f *inFlight, err error) {
	c.covering = f
	if err == nil {
		f.batch.Stored(c.core.Time(c.instant()))
	}
	f.batch.Answer(err)
	if c.inFlight != f {
		return // it was given up meanwhile, or is settled
	}
	c.inFlight = nil
	if err == nil {
		c.core.Done(c.instant())
		c.durable = f.batch.Revision
		c.pumpSoon()
	} else {
		if errors.Is(err, store.ErrDeposed) {
			c.w.tally.Deposed++
		}
		c.abandon(err)
	}
	if c.stopping {
		c.finish()
	}
}
