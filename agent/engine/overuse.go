package engine

import (
	"context"
	"log/slog"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/bursar/bursar/agent/policy"
	"github.com/bursar/bursar/agent/tracker"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/resource"
)

// askTimeout bounds the call that asks a coordinator to stop an engine.
const askTimeout = 10 * time.Second

// overUsePassed applies policies after a measurement. It logs over-use that has begun or ended. It
// asks a coordinator to stop engines for over-use, or for the end of a main process. It ends none
// itself: the order comes with a Sync, as every order does.
func (s *Engines) overUsePassed(ctx context.Context, _ time.Time) {
	now := time.Now()
	var notices []tracker.Notice
	var asks []func()
	s.state.Locked(func(t *tracker.Tracker) {
		notices = t.Notices()
		if !s.synced() || !t.Agreed() {
			return // while no coordinator answers nothing is stopped
		}
		for _, stop := range t.DueStops(now) {
			e := s.set.enter(stop.ID)
			if e.busy() {
				continue
			}
			t.StopAsked(stop, now)
			e.asking = true
			asks = append(asks, func() { s.askToStop(ctx, e, stop) })
		}
	})
	for _, notice := range notices {
		s.logOverUse(ctx, notice)
	}
	for _, ask := range asks {
		s.background(ask)
	}
}

// logOverUse logs that over-use has begun or ended, at the level that the policy wants.
func (s *Engines) logOverUse(ctx context.Context, notice tracker.Notice) {
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
	s.log.LogAttrs(ctx, level, text, attributes...)
}

func quantity(dimension string, n int64) string {
	if dimension == resource.Memory {
		return resource.ApproximateMemory(n)
	}
	return resource.FormatCPU(n)
}

// askToStop asks a coordinator to stop an engine, once. If none answers, the next measurement
// shows whether the engine is still to be stopped.
func (s *Engines) askToStop(ctx context.Context, e *engine, stop tracker.DueStop) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	heard, err := s.askStop(ctx, &bursarv1.StopRequest{
		Id: stop.ID, Grace: durationpb.New(stop.Grace), Reason: stop.Reason,
	})
	unheard := err != nil && (!heard || ctx.Err() != nil)
	s.state.Locked(func(t *tracker.Tracker) {
		e.asking = false
		if unheard {
			t.StopAsked(stop, time.Time{})
		}
	})
	s.stopAsked(err)
	switch {
	case err == nil:
		s.log.WarnContext(ctx, "an engine is to be stopped by its policy", "allocation_id", stop.ID, "reason", stop.Reason)
		s.syncDue.In(0) // brings the order
	case unheard:
		s.log.DebugContext(ctx, "no coordinator has heard that an engine is to be stopped by its policy", "allocation_id", stop.ID, "error", err)
	case connect.CodeOf(err) == connect.CodeNotFound, connect.CodeOf(err) == connect.CodeFailedPrecondition:
		s.syncDue.In(0) // it has ended, by the ledger: the answer says so
	default:
		s.log.ErrorContext(ctx, "an engine could not be stopped as its policy wants", "allocation_id", stop.ID, "reason", stop.Reason, "error", err)
	}
}
