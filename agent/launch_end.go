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
	"github.com/bursar/bursar/agent/tracker"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/providers/host"
)

const (
	// recordPatience is how long the record of an engine that has ended is waited for: its keeper copies what is left of its output first,
	// for at most a second. One that was killed leaves none.
	recordPatience = 2 * time.Second
	// maxReason bounds the reason of an end, in bytes. The contract has room for 1024 characters; a heartbeat with more is refused.
	maxReason = 1000
	// cleanEvery is how often what has served is looked for.
	cleanEvery = time.Minute
	// between separates the lines of an engine's last words.
	between = " | "
)

// awaitsRecord reports whether an engine that has ended was launched here and its keeper may still write down how. It is of the measuring
// loop.
func (a *Agent) awaitsRecord(id string) bool {
	records := a.records()
	if _, err := records.Note(id); err != nil {
		return false
	}
	if _, err := records.End(id); !errors.Is(err, launch.ErrNone) {
		return false
	}
	now := time.Now()
	since, waits := a.unrecorded[id]
	if !waits {
		since = now
		a.unrecorded[id] = now
	}
	if now.Sub(since) >= recordPatience {
		return false
	}
	a.measureIn(measureGap)
	return true
}

// howEnded says how an engine ended and why, as far as the kernel, its keeper and the agent's own orders tell.
func (a *Agent) howEnded(ctx context.Context, e host.Engine) (*bursarv1.ExitStatus, string) {
	id := e.ID
	exit, reason := a.exitStatus(id), a.endReason(id)
	record, err := a.records().End(id)
	if err != nil {
		if !errors.Is(err, launch.ErrNone) {
			a.log.Warn("how a launched engine ended is not known", "allocation_id", id, "error", err)
		}
		exit, lack := a.cgroups.lackOfMemory(ctx, e, exit)
		if reason == "" && exit.GetOutOfMemory() {
			reason = exitText(exit) + lack
		}
		return exit, reason
	}
	if exit == nil { // else the kernel has said it itself
		exit = recordedExit(record)
	}
	// The keeper knows that one of its processes was. What was stopped has ended by that.
	exit.OutOfMemory = exit.OutOfMemory || record.OutOfMemory && reason == ""
	exit, lack := a.cgroups.lackOfMemory(ctx, e, exit)
	if record.DroppedBytes > 0 {
		a.log.Warn("output of an engine could not be written", "allocation_id", id, "bytes", record.DroppedBytes)
	}
	if reason == "" {
		reason = recordedReason(exitText(exit)+lack, exit, record.Stderr)
	}
	return exit, reason
}

func recordedExit(record keeper.Record) *bursarv1.ExitStatus {
	return &bursarv1.ExitStatus{Code: record.Exit.Code, Signal: record.Exit.Signal}
}

// recordedReason is how an engine ended and, where that was not as it should be, what it said last: as many of the newest lines as there is
// room for.
func recordedReason(how string, exit *bursarv1.ExitStatus, stderr []string) string {
	how = cut(how, maxReason)
	room := maxReason - len(how) - len(": ")
	if exit.Code != nil && exit.GetCode() == 0 || len(stderr) == 0 || room <= 0 {
		return how
	}
	from := len(stderr)
	for used := 0; from > 0; from-- {
		used += len(stderr[from-1]) + len(between)
		if used-len(between) > room {
			break
		}
	}
	said := strings.Join(stderr[from:], between)
	if said == "" { // not even the last line fits: its beginning tells most
		last := stderr[len(stderr)-1]
		said = strings.ToValidUTF8(last[:min(len(last), room)], "")
	}
	return how + ": " + said
}

func exitText(exit *bursarv1.ExitStatus) string {
	switch signal := exit.GetSignal(); {
	case exit.GetOutOfMemory():
		return "killed for lack of memory"
	case signal != 0:
		if name := unix.SignalName(unix.Signal(signal)); name != "" {
			return "killed by " + name
		}
		return fmt.Sprintf("killed by signal %d", signal)
	default:
		return fmt.Sprintf("exit code %d", exit.GetCode())
	}
}

// cleanRecords removes what is kept of launches whose allocations are over, and the coordinator has heard so. It is of the measuring loop.
func (a *Agent) cleanRecords(now time.Time) {
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
		// First the one and then the other: a call that has ended in between has made its allocation known.
		if !a.launches.has(id) && !a.knows(id) {
			err = errors.Join(err, records.Remove(id))
		}
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
