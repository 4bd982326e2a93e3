package engine

import (
	"context"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/bursar/bursar/agent/keeper"
	"github.com/bursar/bursar/agent/tracker"
	"github.com/bursar/bursar/internal/endreason"
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

// leaderEndMeasured finds out how the main process of an engine ended that lives on without it, and
// logs that, once.
func (s *Engines) leaderEndMeasured(_ context.Context, e *engine, m measurement, usage *tracker.Usage) {
	if !usage.Orphaned {
		return
	}
	usage.LeaderEnd = s.leaderEnd(e, m.engine.ID)
	if usage.LeaderEnd == nil || e.orphaned || m.usage.Err != nil {
		return
	}
	e.orphaned = true
	s.log.Warn("an engine's main process has ended and others live on: it keeps its allocation until they end, or it is stopped",
		"allocation_id", m.engine.ID, "processes", m.usage.Processes, "exit_status", usage.LeaderEnd.GetExitStatus())
}

// leaderEnd is the end of the main process of an engine that lives on without it. It is nil for the
// first moment: the others may be about to end too. Only the measuring loop calls it.
func (s *Engines) leaderEnd(e *engine, id string) *bursarv1.LeaderEnd {
	now := time.Now()
	var known *bursarv1.LeaderEnd
	var told *bursarv1.ExitStatus
	s.state.Locked(func(t *tracker.Tracker) { known, told = t.LeaderEnd(id), e.told })
	if known.GetExitStatus() != nil {
		return known // nothing more can be found out
	}
	if e.orphanedSince.IsZero() {
		e.orphanedSince = now
	}
	if wait := e.orphanedSince.Add(leftAfter).Sub(now); known == nil && wait > 0 {
		s.again(wait)
		return nil
	}
	end := &bursarv1.LeaderEnd{Time: timestamppb.New(e.orphanedSince), ExitStatus: s.exitStatus(id)}
	if record, err := s.records.Left(id); err == nil {
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
func (s *Engines) endOfLeft(id string, record keeper.Record) (end *bursarv1.LeaderEnd, reason string, left bool) {
	s.state.Locked(func(t *tracker.Tracker) { end = t.LeaderEnd(id) })
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

// TakeLeaderExit takes from an engine's launcher how the main process ended: the kernel tells that
// to its parent.
func (s *Engines) TakeLeaderExit(id string, exit *bursarv1.ExitStatus) {
	s.state.Locked(func(t *tracker.Tracker) {
		s.set.enter(id).told = exit
		t.SetLeaderExit(id, exit)
	})
}
