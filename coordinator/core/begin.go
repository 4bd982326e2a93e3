package core

import "github.com/bursar/bursar/coordinator/ledger"

// Begin does what is due before the next command. An error is as for Do. Without it Do does the
// same.
func (c *Core) Begin(now ledger.Instant) error {
	if c.ledger == nil || c.fault != nil {
		return c.Fault()
	}
	c.advanceTime(now)
	c.ledger.ActAs("")
	return c.withRecover(c.ledger, nil, func() { c.ledger.Begin(c.now) })
}
