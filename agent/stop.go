package agent

import (
	"context"
	"log/slog"
	"time"

	"github.com/bursar/bursar/agent/process"
	"github.com/bursar/bursar/agent/tracker"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// defaultGrace is the time between SIGTERM and SIGKILL where an order does not say.
const defaultGrace = 10 * time.Second

// stopping is what the agent does to end an engine.
type stopping struct {
	reason   string
	underway bool
}

// stop begins to end an engine, unless that is under way already: orders are repeated until the engine is gone. It ends with
// ctx, which leaves the engine as it is; the next incarnation gets the order again.
func (a *Agent) stop(ctx context.Context, order *bursarv1.StopOrder) {
	id := order.GetAllocationId()
	var engine process.Engine
	repeated := false
	a.locked(func(t *tracker.Tracker) {
		grant, held := t.Get(id)
		p := grant.GetProcess()
		if before := a.stops[id]; !held || p.GetStartTime() == 0 || before != nil && before.underway {
			return
		}
		repeated = a.stops[id] != nil
		a.stops[id] = &stopping{reason: order.GetReason(), underway: true}
		engine = process.Engine{Root: process.Ref{PID: p.GetPid(), StartTime: p.GetStartTime()}, Cgroup: p.GetCgroup()}
	})
	if engine.Root.PID == 0 {
		return
	}
	grace := defaultGrace
	if order.GetGrace() != nil {
		grace = order.GetGrace().AsDuration()
	}
	level := slog.LevelInfo
	if repeated {
		level = slog.LevelDebug
	}
	a.log.Log(ctx, level, "an engine is stopped", "allocation_id", id, "pid", engine.Root.PID, "grace", grace, "reason", order.GetReason())
	a.running.Go(func() {
		err := a.opener.Stop(ctx, engine, grace)
		a.locked(func(*tracker.Tracker) {
			if s := a.stops[id]; s != nil {
				s.underway = false
			}
		})
		if err != nil && ctx.Err() == nil {
			a.log.Error("an engine could not be stopped", "allocation_id", id, "pid", engine.Root.PID, "error", err)
		}
		a.measureIn(0)
	})
}

// endReason says why an engine has ended, where the agent knows; else it is empty.
func (a *Agent) endReason(id string) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch s := a.stops[id]; {
	case s == nil:
		return ""
	case s.reason == "":
		return "stopped"
	default:
		return cut("stopped: "+s.reason, maxReason)
	}
}
