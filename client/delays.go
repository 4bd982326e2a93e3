package client

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"
	"github.com/cenkalti/backoff/v4"

	"github.com/bursar/bursar/internal/admission"
)

// noneKnown multiplies RetryPolicy.Absent for a call whose finder knows no coordinator yet, such as
// one that asks a slow Consul.
const noneKnown = 3

// untilDeadline is the patience of a call that only its deadline ends.
const untilDeadline time.Duration = 0

// delays yields the delays between the attempts of one call by a RetryPolicy, as long as the next
// attempt begins before the end of the call.
type delays struct {
	backoff.BackOff

	ctx    context.Context //nolint:containedctx // lives as long as one call
	policy RetryPolicy
	// waited bounds attempts that the server asked for: none begins later. Zero: only end bounds
	// them. The wait of a request ends at this time.
	waited time.Time
	// timeout is the timeout of the call without its wait, if ctx has no deadline. A refusal is an
	// answer and restarts the timeout.
	timeout time.Duration
	end     time.Time     // end of the timeout; zero: only ctx ends the call
	silent  time.Time     // since when nobody has answered; zero: the last attempt was answered
	again   time.Duration // delay that the server asked for; 0: none
	refused bool          // the server is overloaded and said when to try again
	present bool          // an attempt failed in a way that may end by itself
	began   time.Time     // start of the call
	reached *atomic.Bool  // an attempt of this call or an earlier one got a connection
	// last is the last failure, for notify; nil: no attempt has failed yet.
	last atomic.Pointer[failedAttempt]
}

// failedAttempt is the failure of an attempt. busy: the server said when to try again.
type failedAttempt struct {
	err  error
	busy bool
}

// newDelays returns the delays of a call that asks the server to wait for so long. The time in
// which the server refuses the call counts as waiting.
func newDelays(ctx context.Context, policy RetryPolicy, wait time.Duration) *delays {
	// The library draws from interval × (1 ± factor): with factor 1 from 0 to twice the interval.
	d := &delays{ctx: ctx, policy: policy, began: time.Now(), reached: new(atomic.Bool), BackOff: backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(policy.First/2),
		backoff.WithMaxInterval(policy.Longest/2),
		backoff.WithMultiplier(2),
		backoff.WithRandomizationFactor(1),
		backoff.WithMaxElapsedTime(0),
	)}
	if wait <= 0 && policy.Patience > 0 {
		wait = policy.Refused
	}
	if wait > 0 {
		d.waited = time.Now().Add(wait)
	}
	return d
}

// attemptContext returns the context of one attempt.
func (d *delays) attemptContext(ctx context.Context) (context.Context, context.CancelFunc) {
	if d.end.IsZero() {
		return ctx, func() {}
	}
	return context.WithDeadline(ctx, d.end)
}

// isOver reports whether the call has no time left.
func (d *delays) isOver() bool {
	return d.ctx.Err() != nil || !d.end.IsZero() && !time.Now().Before(d.end)
}

// attemptFailed records the failure of an attempt.
func (d *delays) attemptFailed(err error) {
	d.again = admission.TryAgain(err)
	d.present = d.present || !looksWrong(err)
	if !isUnconnected(err) {
		d.reached.Store(true)
	}
	d.refused = d.again > 0 && connect.CodeOf(err) == connect.CodeResourceExhausted
	d.last.Store(&failedAttempt{err: err, busy: d.refused})
	if !d.refused {
		return
	}
	d.silent = time.Time{}
	if end := time.Now().Add(d.again + d.timeout); !d.end.IsZero() && end.After(d.end) {
		d.end = end
	}
}

// notify calls f if the call has no answer after this time. A nil f is not called. The returned
// function cancels the notice and waits until f has returned.
func (d *delays) notify(after time.Duration, f func(last error)) (stop func()) {
	if f == nil {
		return func() {}
	}
	told := make(chan struct{})
	timer := time.AfterFunc(after, func() {
		defer close(told)
		switch last := d.last.Load(); {
		case last == nil:
			f(nil)
		case !last.busy:
			f(last.err)
		}
	})
	return func() {
		if !timer.Stop() {
			<-told
		}
	}
}

// isLate reports whether an attempt would begin too late for a call without an answer.
func (d *delays) isLate(next time.Time) bool {
	switch {
	case d.policy.Absent > 0 && !d.reached.Load():
		absent := d.policy.Absent
		if last := d.last.Load(); last != nil && errors.Is(last.err, errNoneKnown) {
			absent *= noneKnown
		}
		return next.Sub(d.began) > absent
	case d.policy.Patience <= 0:
		return false
	case d.present:
		return next.Sub(d.silent) > d.policy.Present
	}
	return next.Sub(d.silent) > d.policy.Patience
}

// Reset restarts the delays.
func (d *delays) Reset() {
	d.BackOff.Reset()
	d.silent = time.Time{}
}

// NextBackOff returns the next delay, or backoff.Stop.
func (d *delays) NextBackOff() time.Duration {
	// random, so that clients with the same answer do not retry at the same time
	delay := d.BackOff.NextBackOff() + d.again
	now := time.Now()
	next := now.Add(delay)
	if !d.refused && d.silent.IsZero() {
		d.silent = now
	}
	switch {
	case d.again > 0 && !d.waited.IsZero() && next.After(d.waited),
		!d.refused && d.isLate(next),
		!d.end.IsZero() && next.After(d.end):
		return backoff.Stop
	}
	if deadline, bounded := d.ctx.Deadline(); bounded && next.After(deadline) {
		return backoff.Stop
	}
	return delay
}
