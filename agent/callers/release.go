package callers

import (
	"context"
	"errors"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"github.com/bursar/bursar/agent/engine"
	"github.com/bursar/bursar/agent/socket"
	"github.com/bursar/bursar/agent/tracker"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// Release gives an allocation back, and stops watching its engine. While a process of the engine
// lives, the allocation only becomes releasing, and an engine that this agent has launched is
// stopped. If no coordinator answers, Release goes on until its caller's deadline. When its caller
// has gone it goes on for the configured patience, if that is not more than 15 s and there are not
// too many such calls: a launcher whose engine has ended may end, too. If it does not go on, the
// agent itself finds the engine's end.
func (s *service) Release(ctx context.Context, request *bursarv1.ReleaseRequest) (*bursarv1.ReleaseResponse, error) {
	a := s.API
	ctx, cancel := a.detached.detach(ctx, a.settings().Patience)
	defer cancel()
	defer context.AfterFunc(s.stopping, cancel)() //nolint:contextcheck // two contexts end the call
	if err := a.ownHost(ctx, request.GetId()); err != nil {
		return nil, err
	}
	request = proto.CloneOf(request)
	ends := a.engines.EndOf(ctx, request.GetId())
	if ends == engine.StillRuns && a.engines.HasLaunched(request.GetId()) {
		return s.releaseByStop(ctx, request)
	}
	request.ProcessEnded = ends == engine.HasEnded
	answer, err := relay(ctx, a, a.allocations.Release, a.engines.KnownBetter(ctx, request))
	if err == nil && ends == engine.NotKnown && answer.msg.GetAllocation().GetReleasing() && a.engines.FoundEnded(ctx, request.GetId()) {
		request.ProcessEnded = true
		answer, err = relay(ctx, a, a.allocations.Release, a.engines.KnownBetter(ctx, request))
	}
	switch {
	case err != nil && s.stopping.Err() != nil:
		return nil, connect.NewError(connect.CodeUnavailable, errors.New("the agent is shutting down: ask again"))
	case err != nil:
		return nil, err
	}
	hasProcess := a.engines.HasProcess(request.GetId())
	if answer.msg.GetAllocation() == nil {
		a.state.Locked(func(t *tracker.Tracker) { t.Released(request.GetId()) })
	} else {
		a.observe(ctx, answer.msg.GetAllocation(), answer.asOf)
	}
	if hasProcess {
		a.state.ScheduleSave() // a restart before that finds the process ended, and says so again
		a.engines.WatchEngine(ctx, request.GetId())
		// The memory of the engine can be granted once a sample shows that it is free.
		a.measureDue.In(0)
		a.syncDue.NoLaterThan(time.Now().Add(engine.MeasureGap))
	}
	return answer.msg, nil
}

// releaseByStop releases an engine that this agent has launched, and that runs: it is stopped, and
// its allocation ends with it.
func (s *service) releaseByStop(ctx context.Context, request *bursarv1.ReleaseRequest) (*bursarv1.ReleaseResponse, error) {
	a := s.API
	reason := request.GetReason()
	if c := socket.CallerOf(ctx); reason == "" && c != nil {
		reason = "released by " + c.Actor.Name
	}
	answer, err := relay(ctx, a, a.allocations.Stop, &bursarv1.StopRequest{Id: request.GetId(), Reason: reason, Release: true})
	if err != nil {
		return nil, err
	}
	a.observe(ctx, answer.msg.GetAllocation(), answer.asOf)
	a.syncDue.NoLaterThan(time.Now()) // the answer has the order to stop
	return &bursarv1.ReleaseResponse{Allocation: answer.msg.GetAllocation()}, nil
}
