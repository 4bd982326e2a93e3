package agent

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bursar/bursar/agent/keeper"
	"github.com/bursar/bursar/agent/launch"
	"github.com/bursar/bursar/agent/peak"
	"github.com/bursar/bursar/agent/tracker"
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
	a.measureIn(measureGap)
	return true
}

// howEnded says how an engine ended and why, as far as the kernel, its keeper and the agent's own
// orders tell.
func (a *Agent) howEnded(ctx context.Context, e host.Engine) ending {
	id := e.ID
	end := ending{exit: a.exitStatus(id), reason: a.endReason(id)}
	record, err := a.records().End(id)
	switch {
	case errors.Is(err, launch.ErrNone):
	case err != nil:
		a.log.Warn("how a launched engine ended is not known", "allocation_id", id, "error", err)
	default:
		if end.exit == nil { // else the kernel has said it itself
			end.exit = recordedExit(record)
		}
		// The keeper knows that one of its processes was killed so. An engine that was stopped has
		// ended by the stop.
		end.exit.OutOfMemory = end.exit.OutOfMemory || record.OutOfMemory && end.reason == ""
	}
	var lack string
	end.exit, lack = a.cgroups.LackOfMemory(ctx, e, end.exit)
	end.marks = a.marks(ctx, e, end.exit, lack, peak.Marks{ProcessBytes: record.Use.ProcessBytes, CPUTime: record.Use.CPUTime()})
	if record.DroppedBytes > 0 {
		a.log.Warn("output of an engine could not be written", "allocation_id", id, "bytes", record.DroppedBytes)
	}
	if end.reason != "" { // it was stopped
		return end
	}
	if err == nil || end.exit.GetOutOfMemory() || lack != "" {
		end.reason = spelling.Cut(ExitText(end.exit)+lack, maxReason)
	}
	if err == nil && (end.exit.Code == nil || end.exit.GetCode() != 0) {
		end.errorOutput = lastLines(record.Stderr)
	}
	return end
}

func recordedExit(record keeper.Record) *bursarv1.ExitStatus {
	return &bursarv1.ExitStatus{Code: record.Exit.Code, Signal: record.Exit.Signal}
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

// ExitText says how an engine ended, as the reason of its end does.
func ExitText(exit *bursarv1.ExitStatus) string {
	switch signal := exit.GetSignal(); {
	case exit.GetOutOfMemory():
		return "killed for lack of memory"
	case signal != 0:
		if name := unix.SignalName(unix.Signal(signal)); name != "" {
			return "killed by " + name
		}
		return fmt.Sprintf("killed by signal %d", signal)
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
