package agent

import (
	"context"
	"fmt"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/bursar/bursar/agent/keeper"
	"github.com/bursar/bursar/agent/process"
	"github.com/bursar/bursar/agent/socket"
	"github.com/bursar/bursar/agent/tracker"
	"github.com/bursar/bursar/internal/endreason"
	"github.com/bursar/bursar/internal/processtable"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/providers/host"
)

const (
	// leftAfter is how long processes of an engine live on after its main process until that is
	// told: those of a pipeline, or helpers that see the end of their parent, end in a moment.
	leftAfter = time.Second
	// mostLeft bounds how many processes of an engine are remembered.
	mostLeft = 1024
)

// leaderEnd is the end of the main process of an engine that lives on without it. It is nil for the
// first moment: the others may be about to end too. Only the measuring loop calls it.
func (a *Agent) leaderEnd(e *engine, id string) *bursarv1.LeaderEnd {
	now := time.Now()
	var known *bursarv1.LeaderEnd
	var told *bursarv1.ExitStatus
	a.locked(func(t *tracker.Tracker) { known, told = t.LeaderEnd(id), e.told })
	if known.GetExitStatus() != nil {
		return known // nothing more can be found out
	}
	if e.orphanedSince.IsZero() {
		e.orphanedSince = now
	}
	if wait := e.orphanedSince.Add(leftAfter).Sub(now); known == nil && wait > 0 {
		a.measureAgain(wait)
		return nil
	}
	end := &bursarv1.LeaderEnd{Time: timestamppb.New(e.orphanedSince), ExitStatus: a.exitStatus(id)}
	if record, err := a.records().Left(id); err == nil {
		end.Time = timestamppb.New(record.Time)
		if end.ExitStatus == nil {
			end.ExitStatus = recordedExit(record.Exit)
		}
	}
	if end.ExitStatus == nil {
		end.ExitStatus = told
	}
	return end
}

// endOfLeft says how an engine ended whose main process had ended before; false: that had not, as
// far as the agent and the engine's keeper know.
func (a *Agent) endOfLeft(id string, record keeper.Record) (end *bursarv1.LeaderEnd, reason string, left bool) {
	a.locked(func(t *tracker.Tracker) { end = t.LeaderEnd(id) })
	if at := record.LeaderTime; at != nil {
		end = &bursarv1.LeaderEnd{Time: timestamppb.New(*at), ExitStatus: recordedExit(record.Exit)}
	}
	if end == nil {
		return nil, "", false
	}
	e := endreason.Left{Leader: end.GetExitStatus(), LeaderTime: end.GetTime().AsTime(), Killed: record.Killed, KilledBy: record.KilledBy}
	if record.Last != nil {
		e.Last = recordedExit(*record.Last)
	}
	return end, e.Text(), true
}

// remembered are the processes of an engine that an agent which starts again would not find.
func remembered(u host.Usage) (list []tracker.Left) {
	if u.Reaped { // they are found below the reaper
		return nil
	}
	for _, orphan := range u.Orphans[:min(len(u.Orphans), mostLeft)] {
		list = append(list, tracker.Left{PID: orphan.PID, StartTime: orphan.StartTime, Descends: orphan.Descends})
	}
	return list
}

// orphansOf is the reverse of remembered.
func orphansOf(left []tracker.Left) (list []host.Orphan) {
	for _, l := range left {
		list = append(list, host.Orphan{PID: l.PID, StartTime: l.StartTime, Descends: l.Descends})
	}
	return list
}

// reaperOf returns the process that makes a Confirm, if it says that it reaps and is the parent of
// the process that it confirms.
func (a *Agent) reaperOf(ctx context.Context, request *bursarv1.ConfirmRequest, pid int32) (reaper process.Ref) {
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
	a.locked(func(t *tracker.Tracker) {
		if t.IsReaper(reaper.PID, reaper.StartTime, request.GetId()) {
			reaper = process.Ref{}
		}
	})
	return reaper
}

// takeLeaderEnd takes from an engine's launcher how the main process ended: the kernel tells that
// to its parent.
func (a *Agent) takeLeaderEnd(ctx context.Context, request *bursarv1.ConfirmRequest) (*bursarv1.ConfirmResponse, error) {
	id, c := request.GetId(), socket.CallerOf(ctx)
	var current tracker.Engine
	var grant *bursarv1.Allocation
	listed := false
	a.locked(func(t *tracker.Tracker) {
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
	if found, err := a.deps.Meter.Identify(p.GetPid()); err == nil && found.StartTime == p.GetStartTime() && !found.Ended() {
		return nil, connect.NewError(connect.CodeFailedPrecondition, fmt.Errorf("leader_end: process %d of allocation %s runs", p.GetPid(), id))
	}
	exit := request.GetLeaderEnd().GetExitStatus()
	a.locked(func(t *tracker.Tracker) {
		a.engines.enter(id).told = exit
		t.SetLeaderExit(id, exit)
	})
	a.measureIn(0)
	a.afterChange(ctx)
	return &bursarv1.ConfirmResponse{Allocation: unsealed(grant)}, nil
}

// recordOf returns what the keeper of an engine that has ended has written down. A keeper that was
// killed may have said how the main process ended.
func (a *Agent) recordOf(id string) (record keeper.Record, err error) {
	record, err = a.records().Last(id)
	if err == nil && record.Left {
		at := record.Time
		record.LeaderTime = &at
	}
	return record, err //nolint:wrapcheck // the caller knows what it asked for
}
