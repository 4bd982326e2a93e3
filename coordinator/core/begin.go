package core

import "github.com/bursar/bursar/coordinator/ledger"

// Begin does the work that is due before the next command. Do returns the same errors, and does
// this work itself if Begin was not called.
func (c *Core) Begin(now ledger.Instant) error {
	if c.ledger == nil || c.fault != nil {
		return c.Fault()
	}
	c.advanceTime(now)
	c.ledger.ActAs("")
	return c.withRecover(c.ledger, nil, func() { c.ledger.Begin(c.now) })
}
