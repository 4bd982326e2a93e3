package callers

import (
	"context"
	"errors"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"github.com/bursar/bursar/agent/refusal"
	"github.com/bursar/bursar/agent/socket"
	"github.com/bursar/bursar/agent/tracker"
	"github.com/bursar/bursar/internal/access"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/proto/convert"
)

// Wait answers when an engine of this host is ready or has ended. While the engine runs, the
// agent's own measurements and heartbeats say so. The coordinator has the last word on how an
// engine has ended, and on the try that follows. If none answers, the agent says how it has seen
// the end.
func (s engineService) Wait(ctx context.Context, request *bursarv1.WaitRequest) (*bursarv1.WaitResponse, error) {
	a := s.API
	if request.GetId() == "" {
		return nil, refusal.Invalid("id", "", "an allocation of this host")
	}
	admitted, err := a.admit(socket.CallerOf(ctx).Counted())
	if err != nil {
		return nil, err
	}
	defer admitted()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.stopping, cancel)() //nolint:contextcheck // two contexts end the call
	waiting, enough := ctx, context.CancelFunc(func() {})
	if request.GetTimeout() != nil {
		waiting, enough = context.WithTimeout(ctx, request.GetTimeout().AsDuration())
	}
	defer enough()
	response, err := a.wait(waiting, request)
	switch {
	case err == nil:
		return response, nil
	case s.stopping.Err() != nil:
		return nil, connect.NewError(connect.CodeUnavailable, errors.New("the agent is shutting down: ask again"))
	case ctx.Err() == nil && waiting.Err() != nil:
		return a.timedOut(ctx, request.GetId())
	}
	return nil, err
}

// wait is Wait without its time.
func (a *API) wait(ctx context.Context, request *bursarv1.WaitRequest) (*bursarv1.WaitResponse, error) {
	for {
		var known *bursarv1.Allocation
		var end *bursarv1.EngineEnd
		var answered, measured <-chan struct{}
		a.state.Locked(func(t *tracker.Tracker) {
			known, end = t.Shown(request.GetId())
			answered, measured = a.state.Answered.Next(), a.state.Measured.Next()
		})
		switch {
		case known == nil || end != nil:
			response, err := a.waitUpstream(ctx, request)
			switch {
			case err == nil || !IsTransient(err):
				return response, err
			case end != nil:
				return &bursarv1.WaitResponse{Allocation: endedHere(ctx, known, end)}, nil
			case !a.awaitRetry(ctx, relayRetryLast):
				return nil, noAnswer(err)
			}
			continue
		case a.isAwaited(request, known):
			return &bursarv1.WaitResponse{Allocation: known}, nil
		}
		select {
		case <-answered:
		case <-measured:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// isAwaited reports whether a call waits for nothing more of an engine that has not ended.
func (a *API) isAwaited(request *bursarv1.WaitRequest, now *bursarv1.Allocation) bool {
	return request.GetReady() && a.isReady(now) || request.GetLeaderEnd() && now.GetLeaderEnd() != nil
}

// isReady reports whether an engine of this host can be used, as far as anybody has said what that
// takes.
func (a *API) isReady(live *bursarv1.Allocation) bool {
	if live.GetState() != bursarv1.AllocationState_ALLOCATION_STATE_ACTIVE {
		return false
	}
	switch live.GetPhase() {
	case bursarv1.Phase_PHASE_READY:
		return true
	case bursarv1.Phase_PHASE_UNSPECIFIED:
		return !a.engines.Launching(live.GetId())
	default:
		return false
	}
}

// waitUpstream has a coordinator wait for an allocation that has no engine here: its engine has
// ended, or it waits for this host.
func (a *API) waitUpstream(ctx context.Context, request *bursarv1.WaitRequest) (*bursarv1.WaitResponse, error) {
	request = proto.CloneOf(request)
	request.Timeout = nil // ctx ends the call
	if a.upstream != nil {
		response, err := a.upstream.Wait(inNameOf(ctx), request)
		if err == nil || connect.CodeOf(err) != connect.CodeUnimplemented {
			return response, err
		}
	}
	// A coordinator of an older version does not wait: it is asked after each heartbeat.
	for {
		var answered <-chan struct{}
		a.state.Locked(func(*tracker.Tracker) { answered = a.state.Answered.Next() })
		answer, err := relayRead(ctx, a.allocations.Get, &bursarv1.AllocationServiceGetRequest{Id: request.GetId()})
		now := answer.GetAllocation()
		if err != nil || hasEnded(now) || a.isAwaited(request, now) {
			return &bursarv1.WaitResponse{Allocation: now}, err
		}
		select {
		case <-answered:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func hasEnded(a *bursarv1.Allocation) bool {
	switch a.GetState() {
	case bursarv1.AllocationState_ALLOCATION_STATE_WAITING, bursarv1.AllocationState_ALLOCATION_STATE_RESERVED, bursarv1.AllocationState_ALLOCATION_STATE_ACTIVE:
		return false
	default:
		return true
	}
}

// endedHere is an allocation whose engine has ended as the agent has seen it: the coordinator will
// release it.
func endedHere(ctx context.Context, known *bursarv1.Allocation, end *bursarv1.EngineEnd) *bursarv1.Allocation {
	known.State, known.EndTime = bursarv1.AllocationState_ALLOCATION_STATE_RELEASED, end.GetEndTime()
	known.ExitStatus, known.LeaderEnd, known.Incidents = end.GetExitStatus(), end.GetLeaderEnd(), end.GetIncidents()
	known.Reason, known.ErrorOutput = convert.ErrorOutput(end.GetReason(), end.GetErrorOutput(), end.GetExitStatus() != nil)
	known.MeasuredPeak, known.MeasuredPeakSource, known.CpuTime = end.GetMeasuredPeak(), end.GetMeasuredPeakSource(), end.GetCpuTime()
	if c := socket.CallerOf(ctx); c == nil || !access.MaySeeOutput(c.Actor, convert.RightsOf(known)) {
		known.ErrorOutput = ""
	}
	return known
}

// timedOut answers a Wait whose time is over with the allocation as it is now.
func (a *API) timedOut(ctx context.Context, id string) (*bursarv1.WaitResponse, error) {
	var known *bursarv1.Allocation
	a.state.Locked(func(t *tracker.Tracker) { known, _ = t.Shown(id) })
	if known != nil {
		return &bursarv1.WaitResponse{Allocation: known, TimedOut: true}, nil
	}
	answer, err := relayRead(ctx, a.allocations.Get, &bursarv1.AllocationServiceGetRequest{Id: id})
	return &bursarv1.WaitResponse{Allocation: answer.GetAllocation(), TimedOut: true}, err
}
