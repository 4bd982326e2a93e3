package engine

import (
	"context"
	"log/slog"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/bursar/bursar/agent/process"
	"github.com/bursar/bursar/agent/tracker"
	"github.com/bursar/bursar/internal/spelling"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// defaultGrace is the time between SIGTERM and SIGKILL if an order does not say.
const defaultGrace = 10 * time.Second

// An engine that could not be ended is tried again after stopAgainFirst, and later after up to
// stopAgainLast: each time the whole process table is read, and the order comes with every Sync.
const (
	stopAgainFirst = time.Second
	stopAgainLast  = time.Minute
	// stopAgainJitter is how far that varies, as a share of it.
	stopAgainJitter = 0.1
)

// Stop begins to end an engine, unless that is under way already: orders are repeated until the
// engine is gone. If ctx ends, the engine is left as it is, and the next incarnation gets the
// order again. An order that was followed in vain is followed again after a while.
func (s *Engines) Stop(ctx context.Context, order *bursarv1.StopOrder) {
	id := order.GetAllocationId()
	grace := defaultGrace
	if order.GetGrace() != nil {
		grace = order.GetGrace().AsDuration()
	}
	p, known := s.ownProcess(id)
	if !known {
		s.refuseStop(id)
		return
	}
	var engine process.Engine
	var stop *stopping
	var failed string
	repeated := false
	s.state.Locked(func(t *tracker.Tracker) {
		if current, listed := t.Engine(id); !listed || current.Process.GetPid() != p.GetPid() || current.Process.GetStartTime() != p.GetStartTime() {
			return
		}
		e := s.set.enter(id)
		before := e.stop
		if before != nil && before.underway {
			return
		}
		root := process.Ref{PID: p.GetPid(), StartTime: p.GetStartTime()}
		wanted := &stopping{reason: order.GetReason(), grace: grace, root: root, underway: true}
		if before != nil {
			repeated, wanted.failed = true, before.failed
		}
		if before.isSame(wanted) {
			if time.Now().Before(before.next) {
				return
			}
			wanted.retry = before.retry
		} else {
			wanted.retry = backoff.NewExponentialBackOff(
				backoff.WithInitialInterval(stopAgainFirst), backoff.WithMaxInterval(stopAgainLast),
				backoff.WithMultiplier(2), backoff.WithRandomizationFactor(stopAgainJitter), backoff.WithMaxElapsedTime(0),
			)
		}
		stop, engine, failed = wanted, toStop(t, e, id, p), wanted.failed
		e.stop = stop
	})
	if stop == nil {
		return
	}
	level := slog.LevelInfo
	if repeated {
		level = slog.LevelDebug
	}
	s.log.Log(ctx, level, "an engine is stopped", "audit", true, "order", "stop", "allocation_id", id, "pid", engine.Root.PID, "grace", grace, "reason", order.GetReason())
	s.background(func() {
		engine.Made = s.cgroups.Made(id, engine.Cgroup)
		engine.Guarded = s.cgroups.Guarded(ctx, id, engine.Cgroup)
		engine.Freezer = s.cgroups.Freezer(ctx, id, engine.Cgroup)
		err := s.opener.Stop(ctx, engine, grace)
		text := ""
		if err != nil {
			text = err.Error()
		}
		s.state.Locked(func(t *tracker.Tracker) {
			stop.underway, stop.failed, stop.next = false, text, time.Now().Add(stop.retry.NextBackOff())
			if ctx.Err() == nil {
				t.SetStopError(id, spelling.Cut(text, maxReason))
			}
		})
		if err != nil && ctx.Err() == nil {
			level := slog.LevelError
			if text == failed {
				level = slog.LevelDebug
			}
			s.log.Log(ctx, level, "an engine could not be stopped", "allocation_id", id, "pid", engine.Root.PID, "error", err)
		}
		s.measureDue.In(0)
	})
}

// toStop collects the processes and the cgroup of an engine that is to be stopped. The lock of the
// state is held.
func toStop(t *tracker.Tracker, e *engine, id string, p *bursarv1.Process) process.Engine {
	known := process.Engine{Root: process.Ref{PID: p.GetPid(), StartTime: p.GetStartTime()}, User: p.Uid, Cgroup: p.GetCgroup()} //nolint:protogetter // nil says that it is not known
	if e.watches(p) {
		known.LastAlive = e.handle.LastAlive()
	}
	known.Reaper.PID, known.Reaper.StartTime = t.Reaper(id)
	current, _ := t.Engine(id)
	for _, other := range t.Engines() {
		if other.ID != id {
			known.Others = append(known.Others, process.Ref{PID: other.Process.GetPid(), StartTime: other.Process.GetStartTime()})
		}
	}
	list := orphansOf(current.Left) // if nothing was measured yet
	if e.orphans != nil && e.orphans.of == known.Root {
		list = e.orphans.list
	}
	for _, orphan := range list {
		ref := process.Ref{PID: orphan.PID, StartTime: orphan.StartTime}
		if orphan.Descends {
			known.Descendants = append(known.Descendants, ref)
		} else {
			known.Measured = append(known.Measured, ref)
		}
	}
	return known
}

// Stopped reports whether the engine of an allocation is being stopped, or was.
func (s *Engines) Stopped(id string) bool { return s.endReason(id) != "" }

// endReason says why an engine has ended, if the agent knows; else it is empty.
func (s *Engines) endReason(id string) string {
	var stop *stopping
	s.state.Locked(func(*tracker.Tracker) {
		if e := s.set.find(id); e != nil {
			stop = e.stop
		}
	})
	switch {
	case stop == nil:
		return ""
	case stop.reason == "":
		return "stopped"
	default:
		return spelling.Cut("stopped: "+stop.reason, maxReason)
	}
}
