package agent

import (
	"context"
	"log/slog"
	"time"

	"github.com/bursar/bursar/agent/process"
	"github.com/bursar/bursar/agent/tracker"
	"github.com/bursar/bursar/internal/spelling"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// defaultGrace is the time between SIGTERM and SIGKILL where an order does not say.
const defaultGrace = 10 * time.Second

// stopping is what the agent does to end an engine.
type stopping struct {
	reason   string
	underway bool
	failed   string // what went wrong last
}

// stop begins to end an engine, unless that is under way already: orders are repeated until the engine is gone. It ends with
// ctx, which leaves the engine as it is; the next incarnation gets the order again.
func (a *Agent) stop(ctx context.Context, order *bursarv1.StopOrder) {
	id := order.GetAllocationId()
	var engine process.Engine
	var failed string
	repeated := false
	a.locked(func(t *tracker.Tracker) {
		grant, held := t.Get(id)
		p, before := grant.GetProcess(), a.stops[id]
		if !held || p.GetStartTime() == 0 || before != nil && before.underway {
			return
		}
		if before != nil {
			repeated, failed = true, before.failed
		}
		a.stops[id] = &stopping{reason: order.GetReason(), underway: true, failed: failed}
		engine = a.engineLocked(id, p)
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
		engine.Guarded = a.cgroups.Guarded(ctx, id, engine.Cgroup)
		err := a.opener.Stop(ctx, engine, grace)
		text := ""
		if err != nil {
			text = err.Error()
		}
		a.locked(func(*tracker.Tracker) {
			if s := a.stops[id]; s != nil {
				s.underway, s.failed = false, text
			}
		})
		if err != nil && ctx.Err() == nil {
			level := slog.LevelError
			if text == failed {
				level = slog.LevelDebug
			}
			a.log.Log(ctx, level, "an engine could not be stopped", "allocation_id", id, "pid", engine.Root.PID, "error", err)
		}
		a.measureIn(0)
	})
}

// engineLocked puts together what is known of an engine to be stopped or moved.
func (a *Agent) engineLocked(id string, p *bursarv1.Process) process.Engine {
	e := process.Engine{Root: process.Ref{PID: p.GetPid(), StartTime: p.GetStartTime()}, User: p.Uid, Cgroup: p.GetCgroup()} //nolint:protogetter // nil says that it is not known
	if handle := a.watched[id]; handle != nil && handle.Ref() == e.Root {
		e.LastAlive = handle.LastAlive()
	}
	return e
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
		return spelling.Cut("stopped: "+s.reason, maxReason)
	}
}
