package callers

import (
	"context"
	"errors"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/bursar/bursar/agent/tracker"
	"github.com/bursar/bursar/client"
	"github.com/bursar/bursar/internal/admission"
	"github.com/bursar/bursar/internal/pause"
	"github.com/bursar/bursar/proto/convert"
)

// Delays between attempts to reach a coordinator for a caller: the first, and the longest that they
// grow to. The longest is well below the time after which a coordinator gives up a request whose
// caller is away (10 s).
const (
	relayRetryFirst = 50 * time.Millisecond
	relayRetryLast  = time.Second
)

// relayed is the answer to a call that was passed on.
type relayed[R any] struct {
	msg *R
	// asOf is the epoch that the agent knew of when it made the attempt that was answered.
	asOf uint64
}

// relay passes a call on in its caller's name, as repeat does. A refusal means that nothing was
// done. So if one attempt was lost, and a later one met a coordinator with too much to do, the
// error is UNAVAILABLE.
func relay[Q, R any](ctx context.Context, a *API, call func(context.Context, *Q) (*R, error), request *Q) (relayed[R], error) {
	open := false
	named := func(ctx context.Context, request *Q) (*R, error) { return call(inNameOf(ctx), request) }
	answer, err := repeat(ctx, a, noting(&open, named), request)
	if open {
		err = unsettled(err)
	}
	return answer, err
}

// noting sets open once an attempt of a call may have had its effect.
func noting[Q, R any](open *bool, call func(context.Context, *Q) (*R, error)) func(context.Context, *Q) (*R, error) {
	return func(ctx context.Context, request *Q) (*R, error) {
		response, err := call(ctx, request)
		*open = *open || err == nil || client.Undecided(err)
		return response, err
	}
}

// repeat makes a call, which says in whose name, and again as long as no coordinator answers and
// the deadline allows another attempt: all calls of AllocationService may be repeated. ctx must
// have a deadline. If no coordinator answers, the error is UNAVAILABLE. If a coordinator had too
// much to do until the end, the error is that coordinator's RESOURCE_EXHAUSTED; for a request that
// waits, the end is then when its wait is over.
func repeat[Q, R any](ctx context.Context, a *API, call func(context.Context, *Q) (*R, error), request *Q) (relayed[R], error) {
	retry := backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(relayRetryFirst), backoff.WithMaxInterval(relayRetryLast),
		backoff.WithMultiplier(2), backoff.WithRandomizationFactor(0.5), backoff.WithMaxElapsedTime(0),
	)
	waited := time.Now().Add(convert.Wait(request))
	for {
		var answer relayed[R]
		a.state.Locked(func(t *tracker.Tracker) { answer.asOf = t.Epoch() })
		began := time.Now()
		response, err := call(ctx, request)
		switch {
		case err == nil:
			a.reports.HeardAgain()
			answer.msg = response
			return answer, nil
		case errors.Is(ctx.Err(), context.Canceled):
			return answer, err
		case !IsTransient(err):
			a.reports.HeardAgain()
			return answer, err
		case ctx.Err() != nil:
			return answer, noAnswer(err)
		}
		if time.Since(began) > relayRetryLast {
			retry.Reset() // it was connected and waited: this failure is new
		}
		again, delay := admission.TryAgain(err), retry.NextBackOff()
		next := time.Now().Add(again + delay)
		if deadline, _ := ctx.Deadline(); next.After(deadline) || again > 0 && convert.Wait(request) > 0 && next.After(waited) {
			return answer, noAnswer(err)
		}
		// The pause that a coordinator asks for is kept, also if a heartbeat is answered in the
		// meantime.
		if again > 0 && !pause.For(again, ctx.Done(), nil) || !a.awaitRetry(ctx, delay) {
			return answer, noAnswer(err)
		}
	}
}

// awaitRetry waits before the next attempt of a call: for d, or until a heartbeat is answered. By
// then a coordinator leads, and a moment ago there may have been none. So a call that has waited
// long for a leader waits no longer than the others. It returns false if ctx ended first.
func (a *API) awaitRetry(ctx context.Context, d time.Duration) bool {
	var answered <-chan struct{}
	a.state.Locked(func(*tracker.Tracker) { answered = a.state.Answered.Next() })
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-answered:
	case <-timer.C:
	}
	return true
}

// bounded gives a call that has no deadline one: the time it may wait for resources, and the
// configured patience for a coordinator to answer at all.
func (a *API) bounded(ctx context.Context, wait time.Duration) (context.Context, context.CancelFunc) {
	if _, has := ctx.Deadline(); has {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, wait+a.settings().Patience)
}
