package callers

import (
	"context"
	"errors"
	"fmt"

	"connectrpc.com/connect"

	"github.com/bursar/bursar/agent/engine"
	"github.com/bursar/bursar/agent/refusal"
	"github.com/bursar/bursar/agent/socket"
	"github.com/bursar/bursar/agent/tracker"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/proto/convert"
)

// Signal sends a signal to the main process of an engine of this host. No coordinator needs to
// answer.
func (s engineService) Signal(ctx context.Context, request *bursarv1.SignalRequest) (_ *bursarv1.SignalResponse, err error) {
	a, c := s.API, socket.CallerOf(ctx)
	defer func() { a.auditDenied(c, "signal", request.GetId(), err) }()
	if c == nil || c.TCP {
		return nil, connect.NewError(connect.CodePermissionDenied, errors.New("signals are sent over the agent's socket alone"))
	}
	if err := checkSignal(request); err != nil {
		return nil, err
	}
	grant, held := a.held(request.GetId())
	if !held {
		var err error
		if grant, err = a.lastTry(ctx, request.GetId()); err != nil {
			return nil, err
		}
	}
	if !ownsEngine(c, grant) {
		return nil, connect.NewError(connect.CodePermissionDenied, fmt.Errorf(
			"allocation %s is of user %q: %s may not send it a signal: want its caller, the user of its process, or a trusted caller",
			grant.GetId(), convert.RightsOf(grant), c.Actor.Name))
	}
	if err := a.engines.Signal(ctx, grant.GetId(), request.GetSignal(), c.Actor.Name); err != nil {
		if refused, ok := errors.AsType[*engine.SignalError](err); ok {
			return nil, connect.NewError(connect.CodeFailedPrecondition, refused)
		}
		return nil, err
	}
	if grant.GetId() != request.GetId() {
		return &bursarv1.SignalResponse{Id: grant.GetId()}, nil
	}
	return &bursarv1.SignalResponse{}, nil
}

// checkSignal refuses what the contract's rules do: an agent does not read them.
func checkSignal(request *bursarv1.SignalRequest) error {
	_, known := bursarv1.Signal_name[int32(request.GetSignal())]
	switch {
	case request.GetId() == "":
		return refusal.Invalid("id", "", "an allocation of this host")
	case !known || request.GetSignal() == bursarv1.Signal_SIGNAL_UNSPECIFIED:
		return refusal.Invalid("signal", request.GetSignal().String(), "SIGNAL_HUP, SIGNAL_INT, SIGNAL_QUIT, SIGNAL_USR1, SIGNAL_USR2 or SIGNAL_TERM")
	}
	return nil
}

// held returns a reservation of this host, or an allocation with an engine here.
func (a *API) held(id string) (grant *bursarv1.Allocation, held bool) {
	a.state.Locked(func(t *tracker.Tracker) { grant, held = t.Get(id) })
	return grant, held
}

// ownsEngine reports whether a caller has the rights of an engine's user: it made the request, acts
// as its user, or is the user that the engine runs as, who could also end it without the agent.
func ownsEngine(c *socket.Caller, allocation *bursarv1.Allocation) bool {
	return c.Trusted || allocation.GetCaller() == c.Actor.Name || c.Actor.MayActAs(convert.RightsOf(allocation)) || isProcessOf(c, allocation)
}

// isProcessOf reports whether the process of an engine was started as its caller.
func isProcessOf(c *socket.Caller, allocation *bursarv1.Allocation) bool {
	p := allocation.GetProcess()
	return p.GetPid() != 0 && p.Uid != nil && p.GetUid() == c.UID //nolint:protogetter // nil says that it is not known
}

// lastTry is the allocation of the last try of an engine, which is not that of the id. The error
// says why no engine of it runs here, as far as a coordinator knows.
func (a *API) lastTry(ctx context.Context, id string) (*bursarv1.Allocation, error) {
	answer, err := relayRead(ctx, a.allocations.Get, &bursarv1.AllocationServiceGetRequest{Id: id, LastTry: true})
	if err != nil {
		return nil, err
	}
	allocation := answer.GetAllocation()
	if on := allocation.GetHostId(); on != "" && on != a.settings().HostID {
		return nil, a.elsewhere(allocation.GetId(), on)
	}
	if grant, held := a.held(allocation.GetId()); held {
		return grant, nil
	}
	return nil, connect.NewError(connect.CodeFailedPrecondition,
		fmt.Errorf("allocation %s is %s: want an engine that runs on this host", allocation.GetId(), convert.StateText(allocation.GetState())))
}

// elsewhere refuses a call about another host's allocation.
func (a *API) elsewhere(id, host string) error {
	return connect.NewError(connect.CodeFailedPrecondition, a.onHost(id, host))
}

// onHost says that an allocation is another host's, and whom to ask.
func (a *API) onHost(id, host string) error {
	return fmt.Errorf(
		"allocation %s is on host %s, and this is the agent of %s: ask that host's agent, or a coordinator with a token or a certificate of your own (BURSAR_ADDR and BURSAR_TOKEN_FILE for the command line)",
		id, host, a.settings().HostID)
}
