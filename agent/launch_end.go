package agent

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/bursar/bursar/agent/contain"
	"github.com/bursar/bursar/agent/keeper"
	"github.com/bursar/bursar/agent/launch"
	"github.com/bursar/bursar/agent/peak"
	"github.com/bursar/bursar/agent/tracker"
	"github.com/bursar/bursar/internal/endreason"
	"github.com/bursar/bursar/internal/spelling"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/providers/host"
)

const (
	// recordPatience is how long the agent waits for the record of an engine that has ended. Its
	// keeper first copies the rest of the output, for at most a second. A keeper that was killed
	// leaves no record.
	recordPatience = 2 * time.Second
	// maxReason bounds the reason of an end, and maxErrorOutput the last lines next to it, in
	// bytes. The contract has room for 1024 characters of each; a heartbeat with more is refused.
	maxReason      = 1000
	maxErrorOutput = 1000
	// cleanEvery is how often the agent looks for records that are not needed any more, and for
	// keepers that should have ended.
	cleanEvery = 10 * time.Second
)

// ending is how an engine ended, as the coordinator is told.
type ending struct {
	exit *bursarv1.ExitStatus
	// reason is in the agent's own words, or in those of the order to stop the engine. "": nothing
	// is known but that it has ended.
	reason string
	// marks are what the kernel says of its use.
	marks peak.Marks
	// errorOutput are the engine's own words, which must not get into the reason or a log.
	errorOutput string
	// leader is the end of the main process, if it had ended before the last one.
	leader *bursarv1.LeaderEnd
}

// awaitsRecord reports whether an engine that has ended was launched here, and its keeper may
// still write down how it ended. Only the measuring loop calls it.
func (a *Agent) awaitsRecord(e *engine, id string) bool {
	records := a.records()
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
	a.measureAgain(measureGap)
	return true
}

// howEnded says how an engine ended and why, as far as the kernel, its keeper and the agent's own
// orders tell.
func (a *Agent) howEnded(ctx context.Context, e host.Engine) ending {
	id := e.ID
	end := ending{exit: a.exitStatus(id), reason: a.endReason(id)}
	record, err := a.recordOf(id)
	left, leftReason, isLeft := a.endOfLeft(id, record)
	end.leader = left
	if end.exit == nil && left.GetExitStatus() != nil {
		end.exit = proto.CloneOf(left.GetExitStatus()) // what follows is not said of the main process
	}
	switch {
	case errors.Is(err, launch.ErrNone):
	case err != nil:
		a.log.Warn("how a launched engine ended is not known", "allocation_id", id, "error", err)
	default:
		if end.exit == nil { // else the kernel has said it itself
			end.exit = recordedExit(record.Exit)
		}
		// The keeper knows that one of its processes was killed so. An engine that was stopped has
		// ended by the stop.
		end.exit.OutOfMemory = end.exit.OutOfMemory || record.OutOfMemory && end.reason == ""
	}
	var lack contain.Lack
	end.exit, lack = a.cgroups.LackOfMemory(ctx, e, end.exit)
	end.marks = a.marks(ctx, e, end.exit, lack, peak.Marks{ProcessBytes: record.Use.ProcessBytes, CPUTime: record.Use.CPUTime()})
	if record.DroppedBytes > 0 {
		a.log.Warn("output of an engine could not be written", "allocation_id", id, "bytes", record.DroppedBytes)
	}
	if end.reason != "" { // it was stopped
		return end
	}
	switch {
	case isLeft && end.exit.GetOutOfMemory():
		end.reason = spelling.Cut(leftReason+"; "+endText(end.exit, lack), maxReason)
	case isLeft:
		end.reason = spelling.Cut(leftReason+lack.Words, maxReason)
	case err == nil || end.exit.GetOutOfMemory():
		end.reason = spelling.Cut(endText(end.exit, lack), maxReason)
	}
	if err == nil && (!succeeded(end.exit) || record.Last != nil && !succeeded(recordedExit(*record.Last))) {
		end.errorOutput = lastLines(record.Stderr)
	}
	return end
}

func succeeded(exit *bursarv1.ExitStatus) bool { return exit.Code != nil && exit.GetCode() == 0 }

func recordedExit(exit keeper.Exit) *bursarv1.ExitStatus {
	return &bursarv1.ExitStatus{Code: exit.Code, Signal: exit.Signal}
}

// lastLines are as many of the newest lines as there is room for.
func lastLines(lines []string) string {
	from, room := len(lines), maxErrorOutput+len("\n")
	for from > 0 && room >= len(lines[from-1])+len("\n") {
		from--
		room -= len(lines[from]) + len("\n")
	}
	if from == len(lines) && from > 0 { // not even the last line fits: its beginning tells most
		return spelling.Cut(lines[from-1], maxErrorOutput)
	}
	return strings.Join(lines[from:], "\n")
}

// endText says how an engine ended, and what a lack of memory had to do with that.
func endText(exit *bursarv1.ExitStatus, lack contain.Lack) string {
	if lack.Killed {
		return "killed for lack of memory" + lack.Words
	}
	if exit.GetSignal() == 0 && exit.Code == nil { //nolint:protogetter // nil says that it is not known
		exit = nil
	}
	return ExitText(exit) + lack.Words
}

// ExitText says how an engine's process ended, as the reason of its end does.
func ExitText(exit *bursarv1.ExitStatus) string {
	switch signal := exit.GetSignal(); {
	case signal != 0:
		return "killed by " + endreason.Signal(signal)
	case exit == nil:
		return tracker.ProcessEnded
	default:
		return fmt.Sprintf("exit code %d", exit.GetCode())
	}
}

// cleanRecords removes what is kept of launches whose allocations are over, once the coordinator
// has heard so. Only the measuring loop calls it.
func (a *Agent) cleanRecords(ctx context.Context, now time.Time) {
	if now.Sub(a.cleaned) < cleanEvery {
		return
	}
	agreed := false
	a.locked(func(t *tracker.Tracker) { agreed = t.Agreed() })
	if !agreed {
		return // what there is may not be known yet
	}
	records := a.records()
	ids, err := records.List()
	for _, id := range ids {
		// In this order: if a call ends in between, its allocation is known by then.
		if a.launches.has(id) || a.runs(id) {
			continue
		}
		watch, wrong := a.endHeldKeeper(ctx, id, now)
		if !watch && !a.knows(id) {
			wrong = errors.Join(wrong, records.Remove(id))
		}
		err = errors.Join(err, wrong)
	}
	if err != nil {
		a.log.Warn("records of engines could not be cleaned up", "error", err)
	}
	a.cleaned = now
}

func (a *Agent) knows(id string) (known bool) {
	a.locked(func(t *tracker.Tracker) { known = t.Knows(id) })
	return known
}
