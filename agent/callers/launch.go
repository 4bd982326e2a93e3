package callers

import (
	"context"
	"errors"
	"fmt"

	"connectrpc.com/connect"

	"github.com/bursar/bursar/agent/engine"
	"github.com/bursar/bursar/agent/launch"
	"github.com/bursar/bursar/agent/refusal"
	"github.com/bursar/bursar/agent/socket"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/proto/bursar/v1/bursarv1connect"
	"github.com/bursar/bursar/proto/convert"
)

// engineService is EngineService for this host: the agent itself starts an engine.
type engineService struct {
	*API

	// stopping ends when the agent is about to: calls that wait are then answered.
	stopping context.Context //nolint:containedctx // lives as long as the server
}

var _ bursarv1connect.EngineServiceHandler = engineService{}

// Launch starts the engine of a reservation and confirms it. Its keeper hears that it may go on
// once that is done, and once the agent would still know the engine after a restart. If anything
// fails before that, the engine is ended.
func (s engineService) Launch(ctx context.Context, request *bursarv1.LaunchRequest) (*bursarv1.LaunchResponse, error) {
	a := s.API
	ctx, cancel := a.bounded(ctx, launch.StartTimeout)
	defer cancel()
	c := socket.CallerOf(ctx)
	if c == nil || c.TCP {
		return nil, connect.NewError(connect.CodePermissionDenied, errors.New("engines are launched over the agent's socket alone"))
	}
	if err := a.isOfItsHost(); err != nil {
		return nil, err
	}
	if err := CheckLaunch(request); err != nil {
		return nil, err
	}
	ended, err := a.admit(c.Counted())
	if err != nil {
		return nil, err
	}
	defer ended()
	done, err := a.engines.BeginLaunch(ctx, request.GetId())
	if err != nil {
		return nil, err
	}
	defer done()
	answer, err := relay(ctx, a, a.allocations.Get, &bursarv1.AllocationServiceGetRequest{Id: request.GetId()})
	if err != nil {
		return nil, err
	}
	allocation := answer.msg.GetAllocation()
	if err := a.mayLaunch(c, request, allocation); err != nil {
		return nil, err
	}
	if allocation.GetState() != bursarv1.AllocationState_ALLOCATION_STATE_RESERVED {
		return a.launched(c, allocation)
	}
	if err := a.mayConfirm(allocation.GetId()); err != nil {
		return nil, err
	}
	user, err := a.launchUser(ctx, c, request.GetUser())
	if err != nil {
		return nil, err
	}
	active, logDir, err := a.engines.Launch(ctx, engine.Launch{
		Request: request, Allocation: allocation, User: user, CallerUID: c.UID, Caller: c.Actor.Name, Coordinator: inCallersName{a},
	})
	if err != nil {
		return nil, err //nolint:wrapcheck // it says what it is about
	}
	return &bursarv1.LaunchResponse{Allocation: unsealed(active), LogDirectory: logDir}, nil
}

// mayLaunch refuses an allocation that is another caller's or another host's, or that was not
// named by its whole id.
func (a *API) mayLaunch(c *socket.Caller, request *bursarv1.LaunchRequest, allocation *bursarv1.Allocation) error {
	id := allocation.GetId()
	switch on := allocation.GetHostId(); {
	case on != a.settings().HostID && on != "":
		return a.elsewhere(id, on)
	case id != request.GetId():
		return refusal.Invalid("id", request.GetId(), "the whole id of an allocation")
	case allocation.GetCaller() != c.Actor.Name && !c.Actor.MayActAs(convert.RightsOf(allocation)):
		return connect.NewError(connect.CodePermissionDenied,
			fmt.Errorf("allocation %s is of user %q: %s may not act as that user", id, convert.RightsOf(allocation), c.Actor.Name))
	}
	return nil
}

// launched answers a repeated call: the engine of this allocation may run already.
func (a *API) launched(c *socket.Caller, allocation *bursarv1.Allocation) (*bursarv1.LaunchResponse, error) {
	if allocation.GetState() == bursarv1.AllocationState_ALLOCATION_STATE_ACTIVE {
		note, err := a.engines.LaunchNote(allocation.GetId())
		if err == nil && note.Caller == c.UID {
			return &bursarv1.LaunchResponse{Allocation: a.engines.Limited(allocation), LogDirectory: note.LogDirectory}, nil
		}
		if err != nil && !errors.Is(err, launch.ErrNone) {
			return nil, connect.NewError(connect.CodeInternal, err)
		}
		return nil, connect.NewError(connect.CodeFailedPrecondition,
			fmt.Errorf("allocation %s has an engine already, which this caller has not launched: want a reservation", allocation.GetId()))
	}
	state := bursarv1.AllocationState_name[int32(allocation.GetState())]
	return nil, connect.NewError(connect.CodeFailedPrecondition,
		fmt.Errorf("allocation %s: %s (%s): want a reservation", allocation.GetId(), state, allocation.GetReason()))
}

// inCallersName confirms and releases a launched engine in the name of the caller of Launch.
type inCallersName struct{ api *API }

// Confirm implements engine.Coordinator.
func (n inCallersName) Confirm(ctx context.Context, request *bursarv1.ConfirmRequest) (*bursarv1.Allocation, error) {
	answer, err := relay(ctx, n.api, n.api.allocations.Confirm, request)
	if err != nil {
		return nil, err
	}
	n.api.observe(ctx, answer.msg.GetAllocation(), answer.asOf)
	return answer.msg.GetAllocation(), nil
}

// Release implements engine.Coordinator.
func (n inCallersName) Release(ctx context.Context, request *bursarv1.ReleaseRequest) error {
	_, err := relay(ctx, n.api, n.api.allocations.Release, request)
	return err
}
