package sim

import (
	"context"
	"time"

	"github.com/bursar/bursar/coordinator/core"
	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/store"
)

// recall brings the next remembered request ids to the ledger of a leadership, a few at a time, and
// then goes on. A read that gets lost is tried again.
func (c *coord) recall(leadership uint64, at store.Position) {
	if !c.core.Leading() || c.core.Leadership() != leadership || !c.core.Ledger().Recalling() {
		return
	}
	disk, since, limit, done := c.disk, ledger.At(c.w.now.Add(-retention)), 1+c.w.rng.IntN(20), false
	var page []ledger.Remembered
	var next store.Position
	var err error
	c.w.store.exchange(c, func() {
		page, next, err = disk.Remembered(context.Background(), at, since, limit)
	}, func() {
		switch {
		case done || err != nil || !c.core.Leading():
			return
		case next == (store.Position{}):
			c.w.tally.Recalled++
		}
		done = true
		c.do(&core.Call{AtOnce: true, Done: func(error) {}, Do: func(of *core.Core, now ledger.Instant) {
			if of.Leadership() == leadership {
				of.Ledger().Recall(now, page, next == (store.Position{}))
			}
		}})
		c.then(c.w.between(0, 200*time.Millisecond), func() { c.recall(leadership, next) })
	})
	c.then(time.Second, func() {
		if !done {
			done = true
			c.recall(leadership, at)
		}
	})
}
