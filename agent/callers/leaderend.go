package callers

import (
	"context"
	"fmt"

	"connectrpc.com/connect"

	"github.com/bursar/bursar/agent/process"
	"github.com/bursar/bursar/agent/socket"
	"github.com/bursar/bursar/agent/tracker"
	"github.com/bursar/bursar/internal/processtable"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// reaperOf returns the process that makes a Confirm, if it says that it reaps and is the parent of
// the process that it confirms.
func (a *API) reaperOf(ctx context.Context, request *bursarv1.ConfirmRequest, pid int32) (reaper process.Ref) {
	if !request.GetReaps() {
		return process.Ref{}
	}
	peer, err := socket.ProcessOf(ctx).Identity()
	child, there := processtable.Look(int(pid))
	if err != nil || !there || child.Parent != int(peer.PID) {
		a.log.Debug("the caller is not known to be the parent of the engine that it confirms", "allocation_id", request.GetId(), "pid", pid, "error", err)
		return process.Ref{}
	}
	reaper = process.Ref{PID: peer.PID, StartTime: peer.StartTime}
	a.state.Locked(func(t *tracker.Tracker) {
		if t.IsReaper(reaper.PID, reaper.StartTime, request.GetId()) {
			reaper = process.Ref{}
		}
	})
	return reaper
}

// takeLeaderEnd takes from an engine's launcher how the main process ended: the kernel tells that
// to its parent.
func (a *API) takeLeaderEnd(ctx context.Context, request *bursarv1.ConfirmRequest) (*bursarv1.ConfirmResponse, error) {
	id, c := request.GetId(), socket.CallerOf(ctx)
	var current tracker.Engine
	var grant *bursarv1.Allocation
	listed := false
	a.state.Locked(func(t *tracker.Tracker) {
		current, listed = t.Engine(id)
		grant, _ = t.Get(id)
	})
	p := current.Process
	switch {
	case !listed:
		return nil, connect.NewError(connect.CodeFailedPrecondition, fmt.Errorf("leader_end: allocation %s has no engine here", id))
	case c == nil || !c.Trusted && (p.Uid == nil || p.GetUid() != c.UID): //nolint:protogetter // nil says that it is not known
		return nil, connect.NewError(connect.CodePermissionDenied, fmt.Errorf("leader_end: the engine of allocation %s is another user's", id))
	}
	if found, err := a.meter.Identify(p.GetPid()); err == nil && found.StartTime == p.GetStartTime() && !found.Ended() {
		return nil, connect.NewError(connect.CodeFailedPrecondition, fmt.Errorf("leader_end: process %d of allocation %s runs", p.GetPid(), id))
	}
	exit := request.GetLeaderEnd().GetExitStatus()
	a.engines.TakeLeaderExit(id, exit)
	a.measureDue.In(0)
	a.engines.AfterChange(ctx)
	return &bursarv1.ConfirmResponse{Allocation: unsealed(grant)}, nil
}
