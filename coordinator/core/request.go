package core

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/bursar/bursar/coordinator/ledger"
)

// ErrWithdrawn answers a request whose caller went away before its turn.
var ErrWithdrawn = errors.New("the caller of the request went away")

// Request is a request for an allocation. Its caller waits until it is decided. A caller that no
// longer wants to wait sends the command that Withdraw returns.
type Request struct {
	Command ledger.AllocateCommand
	// PastOf is the leadership in which Command.Past was read. In another leadership, Past counts
	// as not read.
	PastOf uint64
	// Result and Err may be read after Done was called with nil.
	Result ledger.AllocateResult
	Err    error
	// Done is called once: with nil when the result is durable, or with the reason why it is not.
	// It must not block.
	Done func(error)
	// From may be nil.
	From *Origin
	// Span may be nil.
	Span *Span
	// Later waits in place of the request, which is then answered at once with the waiting
	// allocation. Nil: the request waits itself. Only Done of Later is set.
	Later *Request

	// While it waits:
	next      *Request // another request that waits for the same allocation
	since     uint64   // the revision at which its wait began
	waiting   bool
	until     ledger.Instant // when its own wait ends
	heapIndex int            // its index in deadlines; notQueued if it has none

	applied   bool
	Waited    bool        // it has waited for resources
	withdrawn atomic.Bool // its caller went away; set by the caller's goroutine
}

// Trace implements Command.
func (r *Request) Trace() *Span { return r.Span }

// Answer implements Command.
func (r *Request) Answer(err error) { r.Done(err) }

func (r *Request) origin() *Origin { return r.From }

// repeats reports whether it is a repeat of the request of an allocation. A request without an id
// repeats no other.
func (r *Request) repeats(of *ledger.Allocation) bool {
	return r.Command.RequestID != "" && r.Command.RequestID == of.RequestID && r.Command.Actor.Name == of.Caller
}

func (r *Request) apply(c *Core, now ledger.Instant) bool {
	if r.withdrawn.Load() || r.Later != nil && r.Later.withdrawn.Load() {
		r.Err = ErrWithdrawn
		return true
	}
	r.applied = true
	if r.PastOf != c.leadership {
		r.Command.Past = nil
	}
	r.Result, r.Err = c.ledger.Allocate(now, r.Command)
	if r.Err != nil || r.Result.Ended || r.Command.Async || r.Result.Allocation.State != ledger.Waiting {
		return true
	}
	waiter := r
	if r.Later != nil {
		waiter = r.Later
		waiter.Command, waiter.From, waiter.Result, waiter.applied = r.Command, r.From, r.Result, true
		c.ledger.Describe(&r.Result.Allocation) // this one is answered now
	}
	id := r.Result.Allocation.ID
	waiter.next, waiter.since, waiter.waiting, waiter.Waited = c.waiters[id], c.ledger.Revision(), true, true
	c.waiters[id] = waiter
	c.deadlines.add(waiter, now)
	return waiter != r
}

// stored corrects the expiry in a grant's answer if its commit took so long that the expiry is
// near. The time to live counts from the commit. But the next leader may know only the row, and the
// rule that no reservation expires within one interval after a load. So the answer has no later
// expiry than these two give.
func (r *Request) stored(b *Batch) {
	grant := &r.Result.Allocation
	fresh := r.Err == nil && grant.State == ledger.Reserved && grant.GrantRevision > b.after
	if fresh && grant.Expires.Sub(b.stored) < grant.ReservationTTL/2 {
		grant.Expires = max(grant.Expires, b.stored.Add(min(grant.ReservationTTL, b.grace)))
	}
}

// Withdraw returns the command that says that the caller of the Request went away without its
// answer. It may overtake the Request, which then does nothing. An allocation without a request id
// ends, because its caller could never find it again. Any other keeps its place, or its
// reservation, for some time.
func (r *Request) Withdraw() Command {
	r.withdrawn.Store(true)
	if r.Later != nil {
		return r.Later.Withdraw()
	}
	return &Call{Do: r.withdraw, Done: func(error) {}}
}

func (r *Request) withdraw(c *Core, now ledger.Instant) {
	if !r.applied || r.Err != nil || r.Result.Ended {
		return // it came before the Request, or the Request was refused
	}
	id := r.Result.Allocation.ID
	if r.waiting {
		c.removeWaiter(id, r)
		c.ledger.Detach(now, id)
	}
	if r.Command.RequestID == "" && !r.Command.Async {
		// This is right in every state: it does not change a confirmed allocation, and does nothing
		// to an ended one.
		_, _ = c.ledger.Cancel(now, ledger.CancelCommand{Actor: r.Command.Actor, ID: id, Reason: "its caller went away"})
	}
}

// removeWaiter removes a request from the waiters.
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

// The budget of a batch for explanations of failed waits. Equal requests of a caller share one
// explanation. To visit every host for each of a thousand requests that end at once would block the
// loop.
const (
	explainLimit = 64    // explanations
	surveyLimit  = 10000 // hosts, and allocations in the way, that they visit together
)

// explainBudget is the spent part of the budget, and the explanations so far.
type explainBudget struct {
	explained, surveyed int
	found               map[string]*ledger.InsufficientError // by requestKey
}

// requestKey is the caller and its request as a text. Equal requests of one caller have the same
// shortfalls. Another caller may have other shortfalls, and must not see the data of the first one.
func requestKey(c *ledger.AllocateCommand) string {
	text := fmt.Sprintf("%q\n", c.Actor.Name) + c.Labels.String() + "\n" + c.Resource.String()
	if c.Wishes != nil {
		text += fmt.Sprintf("\n%+v", *c.Wishes)
	}
	return text
}

// decideWaiters decides the waiting requests whose wait ends by a transition: the batch that makes
// it durable answers them.
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
			// otherwise it began to wait later, after a grant had been taken back
			if request.since < t.Revision {
				c.removeWaiter(t.ID, request)
				request.Result.Allocation = *t
				request.Err = c.verdict(request, t, &spent)
				c.applied = append(c.applied, request)
			}
			request = next
		}
	}
}

// verdict is the error for the caller when its wait ends; nil for a grant.
func (c *Core) verdict(request *Request, t *ledger.Allocation, spent *explainBudget) error {
	switch {
	case t.State.Holds():
		return nil
	case t.State == ledger.Expired:
		return c.waitExpired(request, t.PassedSince, spent)
	default:
		return &ledger.StateError{What: "allocation", ID: t.ID.String(), State: DescribeEnd(t), Want: "a new request"}
	}
}

// waitExpired refuses a request whose wait is over. starvedSince is when it became starved; 0: it
// did not.
func (c *Core) waitExpired(request *Request, starvedSince ledger.Instant, spent *explainBudget) error {
	insufficient := &ledger.InsufficientError{Reason: ledger.ReasonWaited}
	if c.unexplained {
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
	c.expired = request
	why, err := c.explained(func() (ledger.Explanation, error) { return c.explain(request, starvedSince) })
	c.expired = nil
	if err == nil {
		insufficient.Explain(&why)
		for i := range why.Runners {
			spent.surveyed += why.Runners[i].Looked
		}
	}
	if insufficient.Filters != nil {
		spent.surveyed += insufficient.Filters.Total
	}
	if spent.found == nil {
		spent.found = make(map[string]*ledger.InsufficientError)
	}
	spent.found[what] = insufficient
	return insufficient
}

// explained runs an explanation of a failed wait.
func (c *Core) explained(explain func() (ledger.Explanation, error)) (ledger.Explanation, error) {
	c.explaining = true
	why, err := explain()
	c.explaining = false
	return why, err
}

// WaitedBefore refuses a repeat of a request whose wait is over. starvedSince is when it became
// starved; 0: it did not. The shortfalls at the end of the wait are not stored: it returns the
// current ones.
func (c *Core) WaitedBefore(command *ledger.AllocateCommand, starvedSince ledger.Instant) *ledger.InsufficientError {
	insufficient := &ledger.InsufficientError{Reason: ledger.ReasonWaited}
	if c.unexplained {
		return insufficient
	}
	c.ledger.Begin(c.now) // the due work is no fault of an explanation
	why, err := c.explained(func() (ledger.Explanation, error) { return c.ledger.ExplainAgain(c.now, *command, starvedSince) })
	if err == nil {
		insufficient.Explain(&why)
	}
	return insufficient
}

// explain explains why a request waits. If its allocation still waits, it explains that one,
// because a new request like it may exceed the caller's quota.
func (c *Core) explain(request *Request, starvedSince ledger.Instant) (ledger.Explanation, error) {
	id := request.Result.Allocation.ID
	if a, live := c.ledger.Get(id); live && a.State == ledger.Waiting {
		return c.ledger.ExplainID(c.now, id, request.Command.Actor) //nolint:wrapcheck // it is not shown
	}
	return c.ledger.ExplainAgain(c.now, request.Command, starvedSince) //nolint:wrapcheck // it is not shown
}

// DescribeEnd names the state of an allocation, and its reason.
func DescribeEnd(t *ledger.Allocation) string {
	reason := shownReason(t)
	if reason == "" {
		return t.State.String()
	}
	return t.State.String() + " (" + reason + ")"
}
