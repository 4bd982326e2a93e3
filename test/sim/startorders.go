package sim

import (
	"bytes"
	"context"
	"errors"
	"time"

	"github.com/bursar/bursar/coordinator/core"
	"github.com/bursar/bursar/coordinator/launches"
	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/store"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// Times of orders, as those of coordinator/launches, shorter.
const (
	orderAgain     = 2 * time.Second // an order that was not answered is sent again
	attachPatience = 3 * time.Second // for the agent of a grant to be attached
	againPatience  = 5 * time.Second // for a host, if the launch has failed on another one
)

// orderTry is what a coordinator knows of the order for one grant, in one leadership.
type orderTry struct {
	grant      uint64 // its revision
	leadership uint64
	since      time.Time
	sent       time.Time // zero: never
}

// sendOrders sends the orders of grants that are durable, again and again until the engine has
// begun. It gives a grant up if its agent was never attached.
func (c *coord) sendOrders() {
	if !c.core.Leading() || c.hubOf != c.leadership {
		c.hub.Cut(core.ErrNotLeading)
		c.hubOf = c.leadership
	}
	if !c.core.Leading() || c.stopping {
		return
	}
	w := c.w
	var due []ledger.Allocation
	c.core.Ledger().Allocations(0, func(a *ledger.Allocation) bool {
		if launch := a.Launch(); launch != nil && launch.Row != 0 && a.State == ledger.Reserved && !a.Stopping && a.Revision <= c.durable {
			due = append(due, *a)
		}
		return true
	})
	for i := range due {
		a := &due[i]
		try := c.tries[a.ID]
		if try == nil || try.grant != a.GrantRevision || try.leadership != c.leadership {
			try = &orderTry{grant: a.GrantRevision, leadership: c.leadership, since: w.now}
			c.tries[a.ID] = try
		}
		switch attached := c.hub.IsAttached(a.HostID); {
		case attached && w.now.Sub(try.sent) >= orderAgain:
			try.sent = w.now
			c.sendOrder(a)
		case !attached && try.sent.IsZero() && w.now.Sub(try.since) >= attachPatience:
			try.sent = w.now
			c.giveUp(a)
		}
	}
}

// giveUp has a launch tried elsewhere, after a while in which the coordinator is busy: its agent
// may have taken the order of another leader meanwhile.
func (c *coord) giveUp(a *ledger.Allocation) {
	failed := ledger.LaunchFailed{HostID: a.HostID, ID: a.ID, GrantRevision: a.GrantRevision, Reason: "its agent takes no orders"}
	c.then(c.w.latency()+c.w.between(0, 2*time.Second), func() {
		c.tellf("the agent of %s is not attached: %s is tried elsewhere", failed.HostID, failed.ID)
		c.do(&core.Call{Done: func(error) {}, Do: core.OnLedger(func(l *ledger.Ledger, now ledger.Instant) { _, _ = l.FailLaunch(now, failed) })})
	})
}

// sendOrder reads what is to be executed, and gives the order to the stream of the host's agent.
func (c *coord) sendOrder(a *ledger.Allocation) {
	id, request, grant, row, host := a.ID, a.RequestID, a.GrantRevision, a.Launch().Row, a.HostID
	disk, epoch, leadership := c.disk, c.core.Meta().Epoch, c.leadership
	var spec []byte
	var err error
	c.w.store.exchange(c, func() { spec, err = disk.Launch(context.Background(), row) }, func() {
		if !c.core.Leading() || c.leadership != leadership {
			return
		}
		now, live := c.core.Ledger().Get(id)
		isDue := live && now.State == ledger.Reserved && now.GrantRevision == grant && leadership == c.w.store.known.leadership
		switch {
		case errors.Is(err, store.ErrNotFound) && isDue:
			c.w.failf(startsInvariant, "%s waits to be launched, and its row is not stored", id)
		case err != nil:
		case !bytes.Equal(spec, c.w.starts.asked[request].command.Launch.Spec):
			c.w.failf(startsInvariant, "%s has the row of another launch: %q", id, spec)
		default:
			c.hub.Send(host, &bursarv1.AttachResponse{Epoch: epoch, Order: &bursarv1.AttachResponse_Launch{Launch: &bursarv1.LaunchOrder{
				AllocationId: id.String(), GrantRevision: grant, Spec: spec,
			}}})
		}
	})
}

// startEngine serves a Start: it makes the request, and answers when its engine can be used or has
// ended.
func (c *coord) startEngine(command ledger.AllocateCommand, reply func(answer)) (withdraw func()) {
	gone, leave := false, func() {}
	leadership := c.leadership
	var again func()
	again = func() {
		leave = c.allocate(command, func(a answer) {
			command.Wait = max(command.Wait, againPatience) // from now on another try may follow
			r, ok := a.value.(answerTo)
			if a.broken != nil || !ok || r.err != nil {
				reply(a)
				return
			}
			switch r.allocation.GetState() {
			case bursarv1.AllocationState_ALLOCATION_STATE_RESERVED, bursarv1.AllocationState_ALLOCATION_STATE_ACTIVE:
				c.await(r.allocation.GetId(), func() bool { return gone || !c.core.Leading() || c.leadership != leadership }, reply, again)
			default:
				reply(a)
			}
		})
		if leave == nil {
			leave = func() {}
		}
	}
	again()
	return func() {
		gone = true
		leave()
	}
}

// await looks until a Start waits for nothing more of an allocation. again asks anew: it has ended,
// or waits for another host.
func (c *coord) await(id string, over func() bool, reply func(answer), again func()) {
	c.then(100*time.Millisecond, func() {
		if over() {
			reply(answer{broken: core.ErrNotLeading})
			return
		}
		number, _ := ledger.ParseID(id)
		a, live := c.core.Ledger().Get(number)
		switch {
		case live && (a.Revision > c.durable || !launches.IsSettled(&a)):
			c.await(id, over, reply, again)
		case live && a.State == ledger.Active:
			c.on(func(now answer) {
				r, _ := now.value.(answerTo)
				r.usable = true
				now.value = r
				reply(now)
			}, func(*ledger.Ledger, ledger.Instant) (ledger.Allocation, error) { return a, nil })
		default:
			again()
		}
	})
}
