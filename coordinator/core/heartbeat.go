package core

import (
	"cmp"
	"time"

	"github.com/bursar/bursar/coordinator/ledger"
)

// Report is one heartbeat of a host, with the leadership that its agent has seen.
type Report struct {
	Seen SeenEpoch
	// OfAgent says that identities show that it comes from the host's own agent. If not, any caller
	// may have sent it.
	OfAgent bool
	Command ledger.SyncCommand
	// Result and Err may be read after Done was called with nil. Led is part of the answer.
	Result ledger.SyncResult
	Led    SeenEpoch
	// ResyncAfter is the delay before the host should register and send a full report. It is part
	// of an answer with the action RESYNC; zero: at once.
	ResyncAfter time.Duration
	// FirstSetback is the evidence that the store went back in time, if this report is the first in
	// the leadership to show it; nil otherwise.
	FirstSetback *Setback
	Err          error
	// Done is called once: with nil when the result is durable, or with the reason why it is not.
	// It must not block.
	Done func(error)
	// From may be nil.
	From *Origin
	// Span may be nil.
	Span *Span

	// refused is why the ledger applies only that the host is alive; nil: it applies the whole
	// report.
	refused *RefusedError
}

// sealsHold is the lifetime of a seal if the configuration does not define how long request ids are
// remembered.
const sealsHold = 24 * time.Hour

// Trace implements Command.
func (r *Report) Trace() *Span { return r.Span }

// Answer implements Command.
func (r *Report) Answer(err error) { r.Done(err) }

func (r *Report) origin() *Origin { return r.From }

func (r *Report) apply(c *Core, now ledger.Instant) bool {
	r.Led = c.ownEpoch()
	if r.Err = c.observeEpoch(now, r.Command.HostID, r.OfAgent, r.Seen); r.Err != nil {
		r.Done(r.Err) // it has read nothing that could fail to become durable
		return false
	}
	if r.Seen.Epoch == c.meta.Epoch && c.isOurs(r.Command.HostID, r.Seen.Number) {
		if r.refused != nil {
			c.ledger.Heard(now, r.Command)
			r.Done(r.refused)
			return false
		}
		if r.Command.Full {
			c.over.disown(r.Command.Engines)
		}
		if r.Result, r.Err = c.sync(now, &r.Command); len(r.Result.Over) > 0 {
			c.over.add(now, r.Result.Over, cmp.Or(c.config.RequestRetention, sealsHold))
		}
		return true
	}
	if c.hasHost(r.Command.HostID) || r.OfAgent {
		r.FirstSetback = c.setback.observeRevision(r.Command.HostID, r.Command.Seen)
	}
	// The host's state is of a ledger that is gone: it must register again before its reports
	// count.
	if !c.hasHost(r.Command.HostID) {
		// an answer without an epoch
		r.Err = &ledger.NotFoundError{What: "host", ID: r.Command.HostID}
		return true
	}
	c.markInformed(r.Command.HostID)
	r.Result.Action, r.Result.Revision = ledger.ActionResync, c.ledger.Revision()
	r.ResyncAfter = c.returns.after(r.Command.HostID, c.now, c.ledger.FullReportGap())
	return true
}

// sync applies a report. If its host has shown a setback, it counts the engines adopted from the
// report.
func (c *Core) sync(now ledger.Instant, command *ledger.SyncCommand) (ledger.SyncResult, error) {
	if !command.Full || !c.setback.hosts[command.HostID] {
		return c.ledger.Sync(now, *command)
	}
	before := c.living(command.Engines)
	result, err := c.ledger.Sync(now, *command)
	c.setback.observeAdopted(command.HostID, max(0, c.living(command.Engines)-before))
	return result, err
}

// living counts the engines of a report that have a live allocation.
func (c *Core) living(engines []ledger.EngineReport) (n int) {
	for i := range engines {
		if a, known := c.ledger.Get(engines[i].ID); known && a.State.Holds() {
			n++
		}
	}
	return n
}

// Registration is an agent's registration of its host.
type Registration struct {
	Seen SeenEpoch
	// OfAgent says that identities show that it comes from the host's own agent. If not, any caller
	// may have sent it.
	OfAgent bool
	Command ledger.RegisterCommand
	// Result and Err may be read after Done was called with nil.
	Result Registered
	Err    error
	// Done is called once: with nil when the result is durable, or with the reason why it is not.
	// It must not block.
	Done func(error)
	// From may be nil.
	From *Origin
	// Span may be nil.
	Span *Span
}

// Registered is the answer to a Registration.
type Registered struct {
	Led      SeenEpoch
	StoreID  string
	Interval time.Duration // until the first Sync, and between two
	// SameMachine are other hosts whose agents report from the same machine.
	SameMachine []string
}

// Trace implements Command.
func (r *Registration) Trace() *Span { return r.Span }

// Answer implements Command.
func (r *Registration) Answer(err error) { r.Done(err) }

func (r *Registration) origin() *Origin { return r.From }

func (r *Registration) apply(c *Core, now ledger.Instant) bool {
	r.Result.Led, r.Result.StoreID = c.ownEpoch(), c.meta.StoreID
	if r.Err = c.observeEpoch(now, r.Command.HostID, r.OfAgent, r.Seen); r.Err != nil {
		r.Done(r.Err) // it has read nothing that could fail to become durable
		return false
	}
	if r.Result.Interval, r.Err = c.ledger.Register(now, r.Command); r.Err == nil {
		c.markInformed(r.Command.HostID)
		r.Result.SameMachine = c.ledger.SameMachine(r.Command.HostID)
	}
	return true
}
