package coordinator

import (
	"sync/atomic"

	"github.com/bursar/bursar/coordinator/ledger"
)

// Ask is a request for an allocation whose caller stays on the line until it is decided. A caller that does not want to stay
// any longer sends what Leave returns.
type Ask struct {
	Command ledger.AllocateCommand
	// Result and Err may be read after Done was called with nil.
	Result ledger.AllocateResult
	Err    error
	// Done is told once when the result holds, or why it does not. It must not block.
	Done func(error)

	// While it waits:
	next  *Ask   // others on the line for the same allocation
	since uint64 // the revision at which it began to
	on    bool

	applied bool
	waited  bool        // it was on the line
	passage *passage    // nil: it is not traced
	gone    atomic.Bool // its caller has left; set by the caller's goroutine
}

func (a *Ask) answer(err error) { a.Done(err) }

func (a *Ask) apply(c *Core, now ledger.Instant) bool {
	if a.gone.Load() {
		return true
	}
	a.passage.pass()
	a.applied = true
	a.Result, a.Err = c.ledger.Allocate(now, a.Command)
	if a.Err != nil || a.Result.Ended || a.Command.Async || a.Result.Allocation.State != ledger.Waiting {
		return true
	}
	id := a.Result.Allocation.ID
	a.next, a.since, a.on, a.waited = c.line[id], c.ledger.Revision(), true, true
	c.line[id] = a
	return false
}

// Leave returns the command that says that the caller of the Ask went away without its answer. It may overtake the Ask,
// which then does nothing. An allocation without a request id could never be found again by who wanted it, so it ends;
// any other keeps its place, or its reservation, for a while.
func (a *Ask) Leave() Command {
	a.gone.Store(true)
	return leave{a}
}

type leave struct{ ask *Ask }

func (leave) answer(error) {}

func (l leave) apply(c *Core, now ledger.Instant) bool {
	ask := l.ask
	if !ask.applied || ask.Err != nil || ask.Result.Ended {
		return true // it came before the Ask, or that was refused
	}
	id := ask.Result.Allocation.ID
	if ask.on {
		c.hangUp(id, ask)
		c.ledger.Detach(now, id)
	}
	if ask.Command.RequestID == "" && !ask.Command.Async {
		// Whatever it has become since: an allocation that is confirmed is left alone, one that ended needs nothing.
		_, _ = c.ledger.Cancel(now, ledger.CancelCommand{Actor: ask.Command.Actor, ID: id, Reason: "its caller went away"})
	}
	return true
}

// hangUp takes an ask off the line.
func (c *Core) hangUp(id ledger.ID, ask *Ask) {
	ask.on = false
	first := c.line[id]
	if first == ask {
		if ask.next == nil {
			delete(c.line, id)
		} else {
			c.line[id] = ask.next
		}
		ask.next = nil
		return
	}
	for before := first; before != nil; before = before.next {
		if before.next == ask {
			before.next, ask.next = ask.next, nil
			return
		}
	}
}

// What a batch may spend on looking up why waits have ended. Where a thousand end at once they end for the same reason, and
// a look at every host for each of them would hold up the loop.
const (
	explainLimit = 64    // explanations
	surveyLimit  = 10000 // hosts that they look at, together
)

// explaining is what has been spent.
type explaining struct{ explained, surveyed int }

// settle decides the asks on the line for which a transition is the end of their wait: they are answered with the batch
// that makes it durable.
func (c *Core) settle(transitions []ledger.Allocation) {
	var spent explaining
	for i := range transitions {
		if len(c.line) == 0 {
			return
		}
		t := &transitions[i]
		if t.State == ledger.Waiting {
			continue
		}
		ask := c.line[t.ID]
		for ask != nil {
			next := ask.next
			if ask.since < t.Revision { // else it began to wait after this, when a grant had been taken back
				c.hangUp(t.ID, ask)
				ask.Result.Allocation = *t
				ask.Err = c.verdict(ask, t, &spent)
				c.open = append(c.open, ask)
			}
			ask = next
		}
	}
}

// verdict is the error that the end of a wait means for its caller; nil for a grant.
func (c *Core) verdict(ask *Ask, t *ledger.Allocation, spent *explaining) error {
	switch {
	case t.State.Holds():
		return nil
	case t.State == ledger.Expired:
		insufficient := &ledger.InsufficientError{Reason: ledger.ReasonWaited}
		if spent.explained < explainLimit && spent.surveyed < surveyLimit {
			spent.explained++
			if why, err := c.ledger.Explain(c.now, ask.Command); err == nil {
				insufficient.Shortfalls, insufficient.Filters = why.Shortfalls, why.Filters
			}
			if insufficient.Filters != nil {
				spent.surveyed += insufficient.Filters.Total
			}
		}
		return insufficient
	default:
		return &ledger.StateError{What: "allocation", ID: t.ID.String(), State: describeEnd(t), Want: "a new request"}
	}
}

func describeEnd(t *ledger.Allocation) string {
	if t.Reason == "" {
		return t.State.String()
	}
	return t.State.String() + " (" + t.Reason + ")"
}
