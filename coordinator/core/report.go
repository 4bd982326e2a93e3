package core

import (
	"time"

	"github.com/bursar/bursar/coordinator/ledger"
)

// Report is one heartbeat of a host, with the leadership that its agent has seen.
type Report struct {
	Seen SeenEpoch
	// OfAgent says that it comes from the host's own agent, as far as identities tell; else it may be anybody's.
	OfAgent bool
	Command ledger.SyncCommand
	// Result and Err may be read after Done was called with nil. The answer carries Led.
	Result ledger.SyncResult
	Led    SeenEpoch
	Err    error
	// Done is told once when the result holds, or why it does not. It must not block.
	Done func(error)
	// From may be nil.
	From *Origin
	// Span may be nil.
	Span *Span

	// refused is why nothing of it is taken in but that the host lives; nil: all of it is.
	refused *RefusedError
}

// Trace implements Command.
func (r *Report) Trace() *Span { return r.Span }

// Answer implements Command.
func (r *Report) Answer(err error) { r.Done(err) }

func (r *Report) origin() *Origin { return r.From }

func (r *Report) apply(c *Core, now ledger.Instant) bool {
	r.Led = c.ownEpoch()
	if r.Err = c.observeEpoch(now, r.Command.HostID, r.OfAgent, r.Seen); r.Err != nil {
		r.Done(r.Err) // it has seen nothing that could fail to become durable
		return false
	}
	if r.Seen.Epoch == c.meta.Epoch && c.isOurs(r.Command.HostID, r.Seen.Number) {
		if r.refused != nil {
			c.ledger.Heard(now, r.Command)
			r.Done(r.refused)
			return false
		}
		r.Result, r.Err = c.ledger.Sync(now, r.Command)
		return true
	}
	// What it has seen is of a ledger that is gone: it must begin anew before anything it says counts.
	if !c.hasHost(r.Command.HostID) {
		r.Err = &ledger.NotFoundError{What: "host", ID: r.Command.HostID} // which tells no epoch
		return true
	}
	c.markInformed(r.Command.HostID)
	r.Result.Action, r.Result.Revision = ledger.ActionResync, c.ledger.Revision()
	return true
}

// Registration is an agent's announcement of its host.
type Registration struct {
	Seen SeenEpoch
	// OfAgent says that it comes from the host's own agent, as far as identities tell; else it may be anybody's.
	OfAgent bool
	Command ledger.RegisterCommand
	// Result and Err may be read after Done was called with nil.
	Result Registered
	Err    error
	// Done is told once when the result holds, or why it does not. It must not block.
	Done func(error)
	// From may be nil.
	From *Origin
	// Span may be nil.
	Span *Span
}

// Registered answers a Registration.
type Registered struct {
	Led      SeenEpoch
	StoreID  string
	Interval time.Duration // until the first Sync, and between two
}

// Trace implements Command.
func (e *Registration) Trace() *Span { return e.Span }

// Answer implements Command.
func (e *Registration) Answer(err error) { e.Done(err) }

func (e *Registration) origin() *Origin { return e.From }

func (e *Registration) apply(c *Core, now ledger.Instant) bool {
	e.Result.Led, e.Result.StoreID = c.ownEpoch(), c.meta.StoreID
	if e.Err = c.observeEpoch(now, e.Command.HostID, e.OfAgent, e.Seen); e.Err != nil {
		e.Done(e.Err) // it has seen nothing that could fail to become durable
		return false
	}
	if e.Result.Interval, e.Err = c.ledger.Register(now, e.Command); e.Err == nil {
		c.markInformed(e.Command.HostID)
	}
	return true
}
