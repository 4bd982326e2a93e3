package agent

import (
	"context"
	"log/slog"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/bursar/bursar/agent/policy"
	"github.com/bursar/bursar/agent/tracker"
	"github.com/bursar/bursar/internal/identity"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/resource"
)

// actOnOverUse does what policies want after a measurement: it logs which over-use has begun and
// ended, and for that and for the end of a main process asks a coordinator to stop engines. It ends
// none itself: the order comes with a Sync, as every order does.
func (a *Agent) actOnOverUse(ctx context.Context) {
	now := time.Now()
	var notices []tracker.Notice
	var asks []func()
	a.locked(func(t *tracker.Tracker) {
		notices = t.Notices()
		if a.unsynced.Load() || !t.Agreed() {
			return // while no coordinator answers nothing is stopped
		}
		for _, stop := range t.DueStops(now) {
			e := a.engines.enter(stop.ID)
			if e.busy() {
				continue
			}
			t.StopAsked(stop, now)
			e.asking = true
			asks = append(asks, func() { a.askToStop(ctx, e, stop) })
		}
	})
	for _, notice := range notices {
		a.logOverUse(ctx, notice)
	}
	for _, ask := range asks {
		a.running.Go(ask)
	}
}

// logOverUse logs that over-use has begun or ended, at the level that the policy wants.
func (a *Agent) logOverUse(ctx context.Context, notice tracker.Notice) {
	o := notice.OverUse
	attributes := []slog.Attr{
		slog.String("allocation_id", notice.ID), slog.String("dimension", o.Dimension), slog.String("used", quantity(o.Dimension, o.Used)),
		slog.String("entitled", quantity(o.Dimension, o.Entitled)), slog.String("policy", o.Action.String()),
	}
	if o.Action != policy.Observe && !notice.Ended && !o.StopTime.IsZero() {
		attributes = append(attributes, slog.Time("stop_time", o.StopTime))
	}
	level, text := slog.LevelWarn, "an engine uses more than it is entitled to"
	if notice.Ended {
		level, text = slog.LevelInfo, "an engine keeps to what it is entitled to again"
		attributes = append(attributes, slog.Time("since", o.Since))
	}
	if o.Action == policy.Observe {
		level = slog.LevelDebug
	}
	a.log.LogAttrs(ctx, level, text, attributes...)
}

func quantity(dimension string, n int64) string {
	if dimension == resource.Memory {
		return resource.ApproximateMemory(n)
	}
	return resource.FormatCPU(n)
}

// askToStop asks a coordinator to stop an engine, once. If none answers, the next measurement
// shows whether the engine is still to be stopped.
func (a *Agent) askToStop(ctx context.Context, e *engine, stop tracker.DueStop) {
	ctx, cancel := context.WithTimeout(ctx, syncTimeout)
	defer cancel()
	_, err := a.deps.Allocations.Stop(a.inOwnName(ctx), &bursarv1.StopRequest{
		Id: stop.ID, Grace: durationpb.New(stop.Grace), Reason: stop.Reason,
	})
	unsynced := err != nil && (transient(err) || ctx.Err() != nil)
	a.locked(func(t *tracker.Tracker) {
		e.asking = false
		if unsynced {
			t.StopAsked(stop, time.Time{})
		}
	})
	a.metrics.stopsAsked.WithLabelValues(outcomeOf(err)).Inc()
	switch {
	case err == nil:
		a.log.WarnContext(ctx, "an engine is to be stopped by its policy", "allocation_id", stop.ID, "reason", stop.Reason)
		a.syncDue.noLaterThan(time.Now()) // brings the order
	case unsynced:
		a.log.DebugContext(ctx, "no coordinator has heard that an engine is to be stopped by its policy", "allocation_id", stop.ID, "error", err)
	case connect.CodeOf(err) == connect.CodeNotFound, connect.CodeOf(err) == connect.CodeFailedPrecondition:
		a.syncDue.noLaterThan(time.Now()) // it has ended, by the ledger: the answer says so
	default:
		a.log.ErrorContext(ctx, "an engine could not be stopped as its policy wants", "allocation_id", stop.ID, "reason", stop.Reason, "error", err)
	}
}

// inOwnName says that the agent itself makes the call, which it may for any user's engine on its
// own host. No user of a machine has a name with a colon in it.
func (a *Agent) inOwnName(ctx context.Context) context.Context {
	host := a.settings().HostID
	actor := identity.Actor{Name: "agent:policy@" + host, Anyone: true, Role: identity.Submitter, Host: host}
	ctx, info := connect.NewClientContext(ctx)
	info.RequestHeader().Set(identity.Header, actor.Encode())
	return ctx
}
