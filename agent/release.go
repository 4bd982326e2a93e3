package agent

import (
	"context"
	"errors"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"github.com/bursar/bursar/agent/tracker"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/providers/host"
)

// Release gives an allocation back, and stops watching its engine. If no coordinator answers, it
// goes on until its caller's deadline. When its caller has gone it goes on for the configured
// patience, if that is not more than 15 s and there are not too many such calls: a launcher whose
// engine has ended may end, too. If it does not go on, the agent itself finds the engine's end.
func (s *service) Release(ctx context.Context, request *bursarv1.ReleaseRequest) (*bursarv1.ReleaseResponse, error) {
	a := s.agent
	ctx, cancel := a.detached.detach(ctx, a.settings().Patience)
	defer cancel()
	defer context.AfterFunc(s.stopping, cancel)() //nolint:contextcheck // two contexts end the call
	if err := a.ownHost(ctx, request.GetId()); err != nil {
		return nil, err
	}
	answer, err := relay(ctx, a, a.deps.Allocations.Release, a.knownBetter(ctx, request))
	switch {
	case err != nil && s.stopping.Err() != nil:
		return nil, connect.NewError(connect.CodeUnavailable, errors.New("the agent is shutting down: ask again"))
	case err != nil:
		return nil, err
	}
	engine := a.isEngine(request.GetId())
	if answer.msg.GetAllocation() == nil {
		a.locked(func(t *tracker.Tracker) { t.Released(request.GetId()) })
	} else {
		a.observe(ctx, answer.msg.GetAllocation(), answer.asOf)
	}
	if engine {
		a.scheduleSave() // a restart before that finds the process ended, and says so again
		a.watchEngine(ctx, request.GetId())
		// What the engine had touched can be granted once a sample shows that it is free.
		a.measureIn(0)
		a.syncDue.noLaterThan(time.Now().Add(measureGap))
	}
	return answer.msg, nil
}

// knownBetter adds to a release what the agent knows and the launcher does not: that the engine
// was stopped, and why, or that it was killed for lack of memory. The launcher is often the first
// to see that its engine has ended.
func (a *Agent) knownBetter(ctx context.Context, request *bursarv1.ReleaseRequest) *bursarv1.ReleaseRequest {
	id := request.GetId()
	var engine host.Engine
	var end *bursarv1.EngineEnd
	a.locked(func(t *tracker.Tracker) {
		grant, _ := t.Get(id)
		p := grant.GetProcess()
		engine = host.Engine{ID: id, PID: p.GetPid(), StartTime: p.GetStartTime(), Cgroup: p.GetCgroup()}
		end = t.Ended(id)
	})
	if end != nil { // found out already, and on its way
		request = proto.CloneOf(request)
		if end.GetReason() != tracker.ProcessEnded { // which says less than who released it
			request.Reason = orDefault(request.GetReason(), end.GetReason())
		}
		request.ErrorOutput = orDefault(end.GetErrorOutput(), request.GetErrorOutput())
		if end.GetExitStatus() != nil {
			request.ExitStatus = end.GetExitStatus()
		}
		return request
	}
	if engine.PID == 0 {
		return request
	}
	reason := a.endReason(id)
	exit := request.GetExitStatus()
	if exit != nil {
		var lack string
		if exit, lack = a.cgroups.LackOfMemory(ctx, engine, exit); reason == "" && (exit.GetOutOfMemory() || lack != "") {
			reason = ExitText(exit) + lack
		}
	}
	request = proto.CloneOf(request)
	request.Reason, request.ExitStatus = orDefault(request.GetReason(), reason), exit
	return request
}

// isEngine reports whether an allocation has a process here.
func (a *Agent) isEngine(id string) (engine bool) {
	a.locked(func(t *tracker.Tracker) {
		grant, held := t.Get(id)
		engine = held && grant.GetProcess().GetPid() != 0
	})
	return engine
}
