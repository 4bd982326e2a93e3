package sim

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/bursar/bursar/coordinator/core"
	"github.com/bursar/bursar/coordinator/launches"
	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/seal"
	"github.com/bursar/bursar/coordinator/store"
	"github.com/bursar/bursar/coordinator/wire"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// receive takes a call: the leader serves it, any other passes it on once, to the coordinator that
// it believes to lead.
func (c *coord) receive(q *request, reply func(answer)) {
	switch {
	case c.stopping:
		reply(answer{broken: errStopping})
	case c.core.Leading():
		if withdraw := q.serve(c, reply); withdraw != nil {
			incarnation := c.incarnation
			c.w.after(q.patience+rpcTimeout+c.w.latency(), "", func() { c.wake(incarnation, withdraw) })
		}
	case q.forwarded:
		reply(answer{broken: core.ErrNotLeading})
	default:
		leader := c.election.leader()
		if leader == nil || leader == c {
			reply(answer{broken: core.ErrNotLeading})
			return
		}
		c.forward(leader, q, reply)
	}
}

// forward passes a call on, and its answer back.
func (c *coord) forward(to *coord, q *request, reply func(answer)) {
	w, incarnation := c.w, c.incarnation
	passed := *q
	passed.forwarded = true
	w.tally.Forwarded++
	w.after(w.latency(), "", func() {
		switch {
		case c.cutPeers[to.number] || w.drops():
		case !to.up():
			c.then(w.latency(), func() { reply(answer{broken: errUnavailable}) })
		default:
			to.wake(to.incarnation, func() {
				to.receive(&passed, func(a answer) {
					w.after(w.latency(), "", func() {
						if !c.cutPeers[to.number] && !w.drops() {
							c.wake(incarnation, func() { reply(a) })
						}
					})
				})
			})
		}
	})
}

// answer sends the result of a command, with the batch that has it.
func (c *coord) answer(reply func(answer), value any, broken error) {
	a := answer{value: value, broken: broken, epoch: c.covering.batch.Epoch, revision: c.covering.batch.Revision}
	c.w.said.answer(&a)
	reply(a)
}

// answerTo is the result of a command on an allocation.
type answerTo struct {
	allocation *bursarv1.Allocation
	err        error // of the ledger
	usable     bool  // the engine of a Start can be used, or could before it ended
}

// allocate serves a request.
func (c *coord) allocate(command ledger.AllocateCommand, reply func(answer)) (withdraw func()) {
	if c.core.Ledger().Recalling() && command.RequestID != "" {
		return c.lookUp(command, reply)
	}
	return c.decide(command, 0, reply)
}

// lookUp asks the store for the id of a request before it is decided: the ledger may not know all
// that are remembered.
func (c *coord) lookUp(command ledger.AllocateCommand, reply func(answer)) (withdraw func()) {
	of, disk := c.core.Leadership(), c.disk
	withdrawn := false
	leave := func() { withdrawn = true }
	var past ledger.Remembered
	var err error
	c.w.store.exchange(c, func() {
		past, err = disk.RememberedOf(context.Background(), command.Actor.Name, command.RequestID)
	}, func() {
		switch {
		case withdrawn:
		case err != nil && !errors.Is(err, store.ErrNotFound):
			reply(answer{broken: err})
		case !c.core.Leading() || c.stopping:
			reply(answer{broken: core.ErrNotLeading})
		default:
			c.w.tally.LookedUp++
			command.Past = &past
			leave = c.decide(command, of, reply)
		}
	})
	return func() { leave() }
}

// decide serves a request whose Past was read in a leadership.
func (c *coord) decide(command ledger.AllocateCommand, pastOf uint64, reply func(answer)) (withdraw func()) {
	ask := &core.Request{Command: command, PastOf: pastOf}
	line, key, waits := c.line, command.Actor.Name+"/"+command.RequestID, false
	leave := func() {
		waits = false
		line[key] = slices.DeleteFunc(line[key], func(other *core.Request) bool { return other == ask })
	}
	ask.Done = func(err error) {
		leave()
		switch {
		case err != nil:
			c.answer(reply, nil, err)
		case errors.Is(ask.Err, ledger.ErrNotRecalled): // of another leadership
			c.answer(reply, nil, core.ErrNotLeading)
		case ask.Err != nil:
			c.answer(reply, answerTo{err: ask.Err}, nil)
		case ask.Result.Ended:
			a, err := c.ended(ask.Result.Allocation.ID)
			c.answer(reply, answerTo{allocation: wire.AllocationMessage(&a), usable: launches.WasUsable(&a)}, err)
		default:
			c.answer(reply, answerTo{allocation: wire.AllocationMessage(&ask.Result.Allocation)}, nil)
		}
	}
	c.do(ask)
	c.checkRefusal(ask.Err)
	if ask.Err == nil && ask.Result.Allocation.State == ledger.Waiting && c.core.Leading() {
		waits = true
		line[key] = append(line[key], ask)
		c.checkWait(&command, func() (ledger.ID, bool) { return ask.Result.Allocation.ID, waits && ask.Err == nil })
	}
	return func() {
		leave()
		c.do(ask.Withdraw())
	}
}

// ended reads an allocation that has ended.
func (c *coord) ended(id ledger.ID) (ledger.Allocation, error) {
	if !c.w.store.reaches(c) {
		return ledger.Allocation{}, store.ErrIO
	}
	a, err := c.disk.Get(context.Background(), id)
	if errors.Is(err, store.ErrNotFound) && c.w.store.known.leadership == c.leadership && !c.w.callers.pastOf(id.String()).undone {
		c.w.failf(5, "%s is remembered and not stored", id)
	}
	return a, err
}

// on serves a command on one allocation.
func (c *coord) on(reply func(answer), f func(*ledger.Ledger, ledger.Instant) (ledger.Allocation, error)) {
	var a ledger.Allocation
	var failed error
	c.do(&core.Call{
		Do: core.OnLedger(func(l *ledger.Ledger, now ledger.Instant) { a, failed = f(l, now) }),
		Done: func(err error) {
			switch {
			case err != nil:
				c.answer(reply, nil, err)
			case failed != nil:
				c.answer(reply, answerTo{err: failed}, nil)
			default:
				c.answer(reply, answerTo{allocation: wire.AllocationMessage(&a)}, nil)
			}
		},
	})
}

// onSealed is on for a command whose answer has the seal of the coordinator, as that to the report
// that an engine waits to begin.
func (c *coord) onSealed(reply func(answer), f func(*ledger.Ledger, ledger.Instant) (ledger.Allocation, error)) {
	var sealed []byte
	c.on(func(a answer) {
		if r, ok := a.value.(answerTo); ok && r.allocation != nil {
			r.allocation.Seal = sealed
		}
		reply(a)
	}, func(l *ledger.Ledger, now ledger.Instant) (ledger.Allocation, error) {
		a, err := f(l, now)
		sealed = c.sealer().Seal(&a)
		return a, err
	})
}

// operate serves a command without a result.
func (c *coord) operate(reply func(answer), f func(*ledger.Ledger, ledger.Instant)) {
	c.do(&core.Call{Do: core.OnLedger(f), Done: func(err error) { c.answer(reply, struct{}{}, err) }})
}

// hostAnswer is the answer to a register or sync: the message, and its leadership, which is not
// sent.
type hostAnswer struct {
	message    any
	leadership uint64
}

// register serves an agent's announcement, whose epoch is of the leadership seenIn. The answer is
// a hostAnswer, or an error.
func (c *coord) register(q *bursarv1.RegisterRequest, seenIn uint64, reply func(answer)) {
	c.w.said.message(q)
	registration, err := wire.NewRegistration(q)
	if err != nil {
		c.w.failf(8, "register: %v", err)
		return
	}
	registration.Done = func(err error) {
		switch {
		case err != nil:
			c.answer(reply, nil, err)
		case registration.Err != nil:
			c.answer(reply, registration.Err, nil)
		default:
			c.checkAccepted(q.GetHostId(), q.GetEpoch(), seenIn, registration.Result.Led.Epoch)
			c.answer(reply, hostAnswer{wire.RegisterResponse(registration, nil), c.covering.leadership}, nil)
		}
	}
	c.do(registration)
}

// sealer seals grants as a coordinator of this leadership does.
func (c *coord) sealer() seal.Sealer {
	return seal.Sealer{Keys: c.core.Meta().SealKeys, Now: c.ledgerTime(), Lifetime: 24 * time.Hour}
}

// sync serves a heartbeat in the same way.
func (c *coord) sync(q *bursarv1.SyncRequest, seenIn uint64, reply func(answer)) {
	c.w.said.message(q)
	report, err := wire.NewReport(q, c.sealer())
	if err != nil {
		c.w.failf(8, "sync: %v", err)
		return
	}
	report.Done = func(err error) {
		switch {
		case err != nil:
			c.answer(reply, nil, err)
		case report.Err != nil:
			c.answer(reply, report.Err, nil)
		default:
			c.checkAccepted(q.GetHostId(), q.GetEpoch(), seenIn, report.Led.Epoch)
			c.answer(reply, hostAnswer{wire.SyncResponse(report, c.sealer()), c.covering.leadership}, nil)
		}
	}
	if c.w.crowd != nil {
		c.w.crowd.heartbeat(c, func() { c.do(report) })
		return
	}
	c.do(report)
}

// checkAccepted holds invariant 6 at the coordinator: it takes nothing from a host that has seen a
// later epoch, or the same number in a past of the store that is gone.
func (c *coord) checkAccepted(host string, seen, seenIn, led uint64) {
	if seen > led || seen == led && seenIn != c.covering.leadership {
		c.w.failf(6, "%s has taken in what host %s says, which has seen epoch %d of leadership %d, in epoch %d of leadership %d",
			c.name, host, seen, seenIn, led, c.covering.leadership)
	}
}
