package callers

import (
	"context"
	"fmt"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"github.com/bursar/bursar/agent/tracker"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// unsealed is an allocation without its seal, which is between the agent and the coordinators.
func unsealed(allocation *bursarv1.Allocation) *bursarv1.Allocation {
	if len(allocation.GetSeal()) == 0 {
		return allocation
	}
	allocation = proto.CloneOf(allocation) // the agent keeps the seal
	allocation.Seal = nil
	return allocation
}

// mayConfirm refuses an allocation whose grant the agent has vetoed.
func (a *API) mayConfirm(id string) error {
	var refused tracker.Refusal
	vetoed := false
	a.state.Locked(func(t *tracker.Tracker) { refused, vetoed = t.Veto(id) })
	if vetoed {
		why := refused.Reason
		if why == "" {
			why = fmt.Sprintf("the host had %d bytes of memory left", refused.Headroom)
		}
		return connect.NewError(connect.CodeFailedPrecondition, fmt.Errorf("allocation %s: its grant was refused: %s: want a grant that stands", id, why))
	}
	return nil
}

// ownHost refuses a call about another host's allocation: that of the engine's last try, if the
// engine was tried again. If the coordinator does not know the
// allocation, the call itself will say so.
func (a *API) ownHost(ctx context.Context, id string) error {
	known := false
	a.state.Locked(func(t *tracker.Tracker) { known = t.Knows(id) })
	if known || id == "" {
		return nil
	}
	answer, err := relay(ctx, a, a.allocations.Get, &bursarv1.AllocationServiceGetRequest{Id: id, LastTry: true})
	if err != nil {
		if connect.CodeOf(err) == connect.CodeNotFound {
			return nil
		}
		return err
	}
	if on := answer.msg.GetAllocation().GetHostId(); on != "" && on != a.settings().HostID {
		return a.elsewhere(id, on)
	}
	return nil
}

// observe notes the allocation that a call has changed.
func (a *API) observe(ctx context.Context, allocation *bursarv1.Allocation, asOf uint64) {
	a.awaitRoom(ctx, allocation)
	if !reserved(allocation) {
		a.settled(allocation.GetId())
	}
	a.state.Locked(func(t *tracker.Tracker) { t.Observe(time.Now(), allocation, asOf) })
	a.cgroups.Schedule(allocation.GetId()) // it may be entitled to something else
}

// roomTimeout bounds awaitRoom. A coordinator has just answered.
const roomTimeout = time.Second

// awaitRoom makes ready for the decision on a grant: it looks at the memory, and, before the grant
// is refused for lack of it, has the coordinator say which engines have ended here. It may have
// granted memory that another client released a moment ago.
func (a *API) awaitRoom(ctx context.Context, allocation *bursarv1.Allocation) {
	if !reserved(allocation) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, roomTimeout)
	defer cancel()
	for {
		a.freshMemory(ctx)
		var awaits bool
		var answered <-chan struct{}
		a.state.Locked(func(t *tracker.Tracker) { awaits, answered = t.AwaitsRoom(allocation), a.state.Answered.Next() })
		if !awaits {
			return
		}
		a.syncDue.NoLaterThan(a.reports.RefusalDue())
		select {
		case <-answered:
		case <-ctx.Done():
			return
		}
	}
}

// isOfItsHost refuses calls if this is not the host's own agent.
func (a *API) isOfItsHost() error {
	if refused := a.reports.Stranger(); refused != nil {
		return connect.NewError(connect.CodeFailedPrecondition, refused)
	}
	return nil
}

func reserved(a *bursarv1.Allocation) bool {
	return a.GetState() == bursarv1.AllocationState_ALLOCATION_STATE_RESERVED
}

// settled ends the wait for the end of a reservation's caller.
func (a *API) settled(id string) {
	a.state.Locked(func(*tracker.Tracker) {
		if waits := a.unconfirmed[id]; waits != nil {
			waits.cancel()
			delete(a.unconfirmed, id)
		}
	})
}
