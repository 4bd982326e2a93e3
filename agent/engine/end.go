package engine

import (
	"context"
	"errors"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/bursar/bursar/agent/contain"
	"github.com/bursar/bursar/agent/keeper"
	"github.com/bursar/bursar/agent/launch"
	"github.com/bursar/bursar/agent/peak"
	"github.com/bursar/bursar/agent/process"
	"github.com/bursar/bursar/agent/tracker"
	"github.com/bursar/bursar/internal/spelling"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/providers/host"
)

// recordPatience is how long the agent waits for the record of an engine that has ended. Its keeper
// first copies the rest of the output, for at most a second. A keeper that was killed leaves no
// record.
const recordPatience = 2 * time.Second

// ending is how an engine ended, as the coordinator is told.
type ending struct {
	exit *bursarv1.ExitStatus
	// reason is in the agent's own words, or in those of the order to stop the engine. "": nothing
	// is known but that it has ended.
	reason string
	// marks are the kernel's figures of its use.
	marks peak.Marks
	// errorOutput are the engine's own words, which must not get into the reason or a log.
	errorOutput string
	// leader is the end of the main process, if it had ended before the last one.
	leader *bursarv1.LeaderEnd
}

// endMeasured finds out whether an engine has ended, and how.
func (s *Engines) endMeasured(ctx context.Context, e *engine, m measurement, usage *tracker.Usage) {
	if m.usage.Alive || m.usage.Processes > 0 || s.watchedRuns(m.engine) {
		e.doubts = 0
		return
	}
	notBegun := s.keepers.notBegun(m.engine)
	usage.Ended = s.certain(e, m.usage.Err) && (notBegun || !s.awaitsRecord(e, m.engine.ID))
	if usage.Ended {
		s.output.Ended(m.engine.ID)
		usage.NotBegun = notBegun
		end := s.howEnded(ctx, m.engine)
		usage.Exit, usage.Reason, usage.ErrorOutput, usage.LeaderEnd, usage.Marks = end.exit, end.reason, end.errorOutput, end.leader, end.marks
	}
}

// watchedRuns reports whether the agent watches an engine's process by a pidfd that says that the
// process runs. The process table may not show it.
func (s *Engines) watchedRuns(e host.Engine) bool {
	var handle *process.Handle
	s.state.Locked(func(*tracker.Tracker) {
		if known := s.set.find(e.ID); known != nil {
			handle = known.handle
		}
	})
	return handle != nil && handle.Ref() == process.Ref{PID: e.PID, StartTime: e.StartTime} && handle.Runs()
}

// certain reports whether an engine of which no process was found has ended. If something could
// not be read, it must be found so twice in a row.
func (s *Engines) certain(e *engine, err error) bool {
	e.doubts++
	if err == nil || e.doubts > 1 {
		return true
	}
	s.again(MeasureGap)
	return false
}

// awaitsRecord reports whether an engine that has ended was launched here, and its keeper may
// still write down how it ended. Only the measuring loop calls it.
func (s *Engines) awaitsRecord(e *engine, id string) bool {
	records := s.records
	if _, err := records.Note(id); err != nil {
		return false
	}
	if _, err := records.End(id); !errors.Is(err, launch.ErrNone) {
		return false
	}
	now := time.Now()
	if e.unrecorded.IsZero() {
		e.unrecorded = now
	}
	if now.Sub(e.unrecorded) >= recordPatience {
		return false
	}
	s.again(MeasureGap)
	return true
}

// howEnded says how an engine ended and why, as far as the kernel, its keeper and the agent's own
// orders tell.
func (s *Engines) howEnded(ctx context.Context, e host.Engine) ending {
	id := e.ID
	end := ending{exit: s.exitStatus(id), reason: s.endReason(id)}
	record, err := s.recordOf(id)
	left, leftReason, isLeft := s.endOfLeft(id, record)
	end.leader = left
	if end.exit == nil && left.GetExitStatus() != nil {
		end.exit = proto.CloneOf(left.GetExitStatus()) // the main process has not ended so
	}
	switch {
	case errors.Is(err, launch.ErrNone):
	case err != nil:
		s.log.Warn("how a launched engine ended is not known", "allocation_id", id, "error", err)
	default:
		if end.exit == nil { // else the kernel has said it itself
			end.exit = recordedExit(record.Exit)
		}
		// The keeper knows that one of its processes was killed so. An engine that was stopped has
		// ended by the stop.
		end.exit.OutOfMemory = end.exit.OutOfMemory || record.OutOfMemory && end.reason == ""
	}
	var lack contain.Lack
	end.exit, lack = s.cgroups.LackOfMemory(ctx, e, end.exit)
	end.marks = s.marks(ctx, e, end.exit, lack, peak.Marks{ProcessBytes: record.Use.ProcessBytes, CPUTime: record.Use.CPUTime()})
	if record.DroppedBytes > 0 {
		s.log.Warn("output of an engine could not be written", "allocation_id", id, "bytes", record.DroppedBytes)
	}
	if end.reason != "" { // it was stopped
		if err == nil && s.unready(id) {
			end.errorOutput = lastLines(record.Stderr)
		}
		return end
	}
	if isLeft || err == nil || end.exit.GetOutOfMemory() {
		end.reason = reasonOfEnd(isLeft, leftReason, end.exit, lack)
	}
	if err == nil && (!succeeded(end.exit) || record.Last != nil && !succeeded(recordedExit(*record.Last))) {
		end.errorOutput = lastLines(record.Stderr)
	}
	return end
}

// reasonOfEnd says how an engine ended. left says how the last of its processes did that had
// outlived its main one, if isLeft.
func reasonOfEnd(isLeft bool, left string, exit *bursarv1.ExitStatus, lack contain.Lack) string {
	switch {
	case !isLeft:
		return spelling.Cut(endText(exit, lack), maxReason)
	case exit.GetOutOfMemory():
		return spelling.Cut(left+"; "+endText(exit, lack), maxReason)
	default:
		return spelling.Cut(left+lack.Words, maxReason)
	}
}

// recordOf returns the record that the keeper of an engine has written at its end. A keeper that
// was killed may have said how the main process ended.
func (s *Engines) recordOf(id string) (record keeper.Record, err error) {
	record, err = s.records.Last(id)
	if err == nil && record.Left {
		at := record.Time
		record.LeaderTime = &at
	}
	return record, err //nolint:wrapcheck // the caller knows what it asked for
}
