package core

import (
	"fmt"
	"sync/atomic"

	"github.com/bursar/bursar/coordinator/ledger"
)

// Request is a request for an allocation whose caller waits until it is decided. A caller that does not want to wait
// any longer sends what Leave returns.
type Request struct {
	Command ledger.AllocateCommand
	// Result and Err may be read after Done was called with nil.
	Result ledger.AllocateResult
	Err    error
	// Done is told once when the result holds, or why it does not. It must not block.
	Done func(error)
	// From may be nil.
	From *Origin
	// Span may be nil.
	Span *Span

	// While it waits:
	next      *Request // others that wait for the same allocation
	since     uint64   // the revision at which it began to
	waiting   bool
	until     ledger.Instant // when its own wait is over
	heapIndex int            // among those who leave before what they wait for is over

	applied   bool
	Waited    bool        // it has waited for resources
	withdrawn atomic.Bool // its caller has left; set by the caller's goroutine
}

// Trace implements Command.
func (a *Request) Trace() *Span { return a.Span }

// Answer implements Command.
func (a *Request) Answer(err error) { a.Done(err) }

func (a *Request) origin() *Origin { return a.From }

// repeats reports whether it is the same request as that of an allocation. One without an id is no other's repeat.
func (a *Request) repeats(of *ledger.Allocation) bool {
	return a.Command.RequestID != "" && a.Command.RequestID == of.RequestID && a.Command.Actor.Name == of.Caller
}

func (a *Request) apply(c *Core, now ledger.Instant) bool {
	if a.withdrawn.Load() {
		return true
	}
	a.applied = true
	a.Result, a.Err = c.ledger.Allocate(now, a.Command)
	if a.Err != nil || a.Result.Ended || a.Command.Async || a.Result.Allocation.State != ledger.Waiting {
		return true
	}
	id := a.Result.Allocation.ID
	a.next, a.since, a.waiting, a.Waited = c.waiters[id], c.ledger.Revision(), true, true
	c.waiters[id] = a
	c.deadlines.add(a, now)
	return false
}

// stored corrects until when a grant is told to last, where its commit took so long that this is about over. Its time to live counts from
// the commit, but whoever leads next may not know more than the row, and that nothing ends within one interval of a load: no caller is
// told of more than both give.
func (a *Request) stored(b *Batch) {
	grant := &a.Result.Allocation
	fresh := a.Err == nil && grant.State == ledger.Reserved && grant.GrantRevision > b.after
	if fresh && grant.Expires.Sub(b.stored) < grant.ReservationTTL/2 {
		grant.Expires = max(grant.Expires, b.stored.Add(min(grant.ReservationTTL, b.grace)))
	}
}

// Withdraw returns the command that says that the caller of the Request went away without its answer. It may overtake the Request,
// which then does nothing. An allocation without a request id could never be found again by who wanted it, so it ends;
// any other keeps its place, or its reservation, for a while.
func (a *Request) Withdraw() Command {
	a.withdrawn.Store(true)
	return &Call{Do: a.withdraw, Done: func(error) {}}
}

func (a *Request) withdraw(c *Core, now ledger.Instant) {
	if !a.applied || a.Err != nil || a.Result.Ended {
		return // it came before the Request, or that was refused
	}
	id := a.Result.Allocation.ID
	if a.waiting {
		c.removeWaiter(id, a)
		c.ledger.Detach(now, id)
	}
	if a.Command.RequestID == "" && !a.Command.Async {
		// Whatever it has become since: an allocation that is confirmed is left alone, one that ended needs nothing.
		_, _ = c.ledger.Cancel(now, ledger.CancelCommand{Actor: a.Command.Actor, ID: id, Reason: "its caller went away"})
	}
}

// removeWaiter takes a request out of the waiters.
func (c *Core) removeWaiter(id ledger.ID, request *Request) {
	request.waiting = false
	c.deadlines.drop(request)
	first := c.waiters[id]
	if first == request {
		if request.next == nil {
			delete(c.waiters, id)
		} else {
			c.waiters[id] = request.next
		}
		request.next = nil
		return
	}
	for before := first; before != nil; before = before.next {
		if before.next == request {
			before.next, request.next = request.next, nil
			return
		}
	}
}

// What a batch may spend on looking up why waits have ended, once for all like requests of a caller:
// a look at every host for each of a thousand that end at once would hold up the loop.
const (
	explainLimit = 64    // explanations
	surveyLimit  = 10000 // hosts that they look at, together
)

// explainBudget is what has been spent, and what was found by that.
type explainBudget struct {
	explained, surveyed int
	found               map[string]*ledger.InsufficientError // by who asked for what
}

// requestKey is who asks for what, as a text: requests of one caller that ask for the same fall short of
// the same. Another caller may fall short of something else, and is not told what the first one has.
func requestKey(c *ledger.AllocateCommand) string {
	text := fmt.Sprintf("%q\n", c.Actor.Name) + c.Labels.String() + "\n" + c.Resource.String()
	if c.Wishes != nil {
		text += fmt.Sprintf("\n%+v", *c.Wishes)
	}
	return text
}

// decideWaiters decides the waiting requests for which a transition is the end of their wait: they are answered with the batch
// that makes it durable.
func (c *Core) decideWaiters(transitions []ledger.Allocation) {
	var spent explainBudget
	for i := range transitions {
		if len(c.waiters) == 0 {
			return
		}
		t := &transitions[i]
		if t.State == ledger.Waiting {
			continue
		}
		request := c.waiters[t.ID]
		for request != nil {
			next := request.next
			if request.since < t.Revision { // else it began to wait after this, when a grant had been taken back
				c.removeWaiter(t.ID, request)
				request.Result.Allocation = *t
				request.Err = c.verdict(request, t, &spent)
				c.applied = append(c.applied, request)
			}
			request = next
		}
	}
}

// verdict is the error that the end of a wait means for its caller; nil for a grant.
func (c *Core) verdict(request *Request, t *ledger.Allocation, spent *explainBudget) error {
	switch {
	case t.State.Holds():
		return nil
	case t.State == ledger.Expired:
		return c.waitExpired(request, spent)
	default:
		return &ledger.StateError{What: "allocation", ID: t.ID.String(), State: DescribeEnd(t), Want: "a new request"}
	}
}

// waitExpired refuses a request whose wait is over.
func (c *Core) waitExpired(request *Request, spent *explainBudget) error {
	insufficient := &ledger.InsufficientError{Reason: ledger.ReasonWaited}
	if c.mute {
		return insufficient
	}
	what := requestKey(&request.Command)
	if found := spent.found[what]; found != nil {
		return found
	}
	if spent.explained >= explainLimit || spent.surveyed >= surveyLimit {
		return insufficient
	}
	spent.explained++
	c.explaining = request
	if why, err := c.explain(request); err == nil {
		insufficient.Shortfalls, insufficient.Filters = why.Shortfalls, why.Filters
	}
	c.explaining = nil
	if insufficient.Filters != nil {
		spent.surveyed += insufficient.Filters.Total
	}
	if spent.found == nil {
		spent.found = make(map[string]*ledger.InsufficientError)
	}
	spent.found[what] = insufficient
	return insufficient
}

// explain says what is in the way of an ask: of its request, where that waits on, because a new one like it may be more than its caller may have.
func (c *Core) explain(request *Request) (ledger.Explanation, error) {
	id := request.Result.Allocation.ID
	if a, live := c.ledger.Get(id); live && a.State == ledger.Waiting {
		return c.ledger.ExplainID(c.now, id) //nolint:wrapcheck // it is not shown
	}
	return c.ledger.Explain(c.now, request.Command) //nolint:wrapcheck // likewise
}

// DescribeEnd names the state of an allocation, and why it is in it.
func DescribeEnd(t *ledger.Allocation) string {
	reason := ShownReason(t)
	if reason == "" {
		return t.State.String()
	}
	return t.State.String() + " (" + reason + ")"
}
