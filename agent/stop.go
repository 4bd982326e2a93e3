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

// defaultGrace is the time between SIGTERM and SIGKILL if an order does not say.
const defaultGrace = 10 * time.Second

// stopping is what the agent does to end an engine.
type stopping struct {
	reason   string
	underway bool
	failed   string // what went wrong last
}

// stop begins to end an engine, unless that is under way already: orders are repeated until the
// engine is gone. If ctx ends, the engine is left as it is, and the next incarnation gets the
// order again.
func (a *Agent) stop(ctx context.Context, order *bursarv1.StopOrder) {
	id := order.GetAllocationId()
	var engine process.Engine
	var stop *stopping
	var failed string
	repeated := false
	a.locked(func(t *tracker.Tracker) {
		grant, held := t.Get(id)
		p := grant.GetProcess()
		if !held || p.GetPid() == 0 || p.GetStartTime() == 0 {
			return
		}
		e := a.engines.enter(id)
		before := e.stop
		if before != nil && before.underway {
			return
		}
		if before != nil {
			repeated, failed = true, before.failed
		}
		stop = &stopping{reason: order.GetReason(), underway: true, failed: failed}
		e.stop = stop
		engine = toStop(e, p)
	})
	if stop == nil {
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
		a.locked(func(*tracker.Tracker) { stop.underway, stop.failed = false, text })
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

// toStop puts together what is known of an engine that is to be stopped. Agent.mu is held.
func toStop(e *engine, p *bursarv1.Process) process.Engine {
	known := process.Engine{Root: process.Ref{PID: p.GetPid(), StartTime: p.GetStartTime()}, User: p.Uid, Cgroup: p.GetCgroup()} //nolint:protogetter // nil says that it is not known
	if e.watches(p) {
		known.LastAlive = e.handle.LastAlive()
	}
	return known
}

// endReason says why an engine has ended, if the agent knows; else it is empty.
func (a *Agent) endReason(id string) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch e := a.engines.find(id); {
	case e == nil || e.stop == nil:
		return ""
	case e.stop.reason == "":
		return "stopped"
	default:
		return spelling.Cut("stopped: "+e.stop.reason, maxReason)
	}
}
