package coordinator

import (
	"fmt"
	"time"

	"github.com/bursar/bursar/coordinator/ledger"
)

// Report is one heartbeat of a host, with the epoch that its agent has seen.
type Report struct {
	Epoch   uint64
	Command ledger.SyncCommand
	// Result and Err may be read after Done was called with nil. The answer carries LedEpoch.
	Result   ledger.SyncResult
	LedEpoch uint64
	Err      error
	// Done is told once when the result holds, or why it does not. It must not block.
	Done func(error)
}

func (r *Report) answer(err error) { r.Done(err) }

func (r *Report) apply(c *Core, now ledger.Instant) bool {
	r.LedEpoch = c.meta.Epoch
	if r.Err = c.checkEpoch(r.Command.HostID, r.Epoch); r.Err != nil {
		return true
	}
	if r.Epoch < c.meta.Epoch {
		// What it has seen is of a ledger that is gone: it must begin anew before anything it says counts.
		r.Result.Action, r.Result.Revision = ledger.ActionResync, c.ledger.Revision()
		return true
	}
	r.Result, r.Err = c.ledger.Sync(now, r.Command)
	return true
}

// Enrolment is an agent's announcement of its host.
type Enrolment struct {
	Epoch   uint64
	Command ledger.RegisterCommand
	// Answer and Err may be read after Done was called with nil.
	Answer Enrolled
	Err    error
	// Done is told once when the result holds, or why it does not. It must not block.
	Done func(error)
}

// Enrolled answers an Enrolment.
type Enrolled struct {
	Epoch    uint64
	StoreID  string
	Interval time.Duration // until the first Sync, and between two
}

func (e *Enrolment) answer(err error) { e.Done(err) }

func (e *Enrolment) apply(c *Core, now ledger.Instant) bool {
	e.Answer.Epoch, e.Answer.StoreID = c.meta.Epoch, c.meta.StoreID
	if e.Err = c.checkEpoch(e.Command.HostID, e.Epoch); e.Err != nil {
		return true
	}
	e.Answer.Interval, e.Err = c.ledger.Register(now, e.Command)
	return true
}

// epochStride bounds how far above this leadership's an epoch may be that an agent has seen. A real one is above it by as
// many leaderships as a restored backup has missed.
const epochStride = 1 << 32

// checkEpoch looks at the epoch that an agent has seen. One above this leadership's ends it: the store was put back to an
// earlier state, or another leads by now, and nothing may be accepted or granted on the strength of it. So does this
// leadership's own number from a host that it has not told: that was given out before the store was put back, and the
// revisions that the host knows are of a ledger that is gone.
func (c *Core) checkEpoch(host string, seen uint64) error {
	switch {
	case seen < c.meta.Epoch, seen == c.meta.Epoch && c.told[host]:
		c.told[host] = true
		return nil
	case seen-c.meta.Epoch > epochStride:
		return fieldError("epoch", fmt.Sprint(seen), fmt.Sprintf("one that a coordinator gave out; this one is at %d", c.meta.Epoch))
	default:
		c.outdone = max(c.outdone, seen)
		return ErrNotLeading
	}
}
