package agent

import (
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"
	"time"

	"connectrpc.com/connect"
	"github.com/cenkalti/backoff/v4"

	"github.com/bursar/bursar/agent/socket"
	"github.com/bursar/bursar/agent/tracker"
	"github.com/bursar/bursar/client"
	"github.com/bursar/bursar/internal/admission"
	"github.com/bursar/bursar/internal/identity"
	"github.com/bursar/bursar/internal/pause"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/proto/convert"
)

// Delays between attempts to reach a coordinator for a caller: the first, and what they grow to.
// The longest is well below the time after which a coordinator gives up a request whose caller is
// away (10 s).
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
func relay[Q, R any](ctx context.Context, a *Agent, call func(context.Context, *Q) (*R, error), request *Q) (relayed[R], error) {
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

// unsettled is the error of a call of which an attempt may have had its effect. A coordinator that
// had too much to do for a later attempt has not refused the call.
func unsettled(err error) error {
	busy, ok := errors.AsType[*connect.Error](err)
	if !ok || busy.Code() != connect.CodeResourceExhausted || !transient(err) {
		return err
	}
	unavailable := connect.NewError(connect.CodeUnavailable, fmt.Errorf("no coordinator says what became of it: %s", busy.Message()))
	for _, detail := range busy.Details() { // when to try again
		unavailable.AddDetail(detail)
	}
	return unavailable
}

// repeat makes a call, which says in whose name, and again as long as no coordinator answers and
// the deadline allows another attempt: all calls of AllocationService may be repeated. ctx must
// have a deadline. If no coordinator answers, the error is UNAVAILABLE. If a coordinator had too
// much to do until the end, the error is that coordinator's RESOURCE_EXHAUSTED; for a request that
// waits, the end is then when its wait is over.
func repeat[Q, R any](ctx context.Context, a *Agent, call func(context.Context, *Q) (*R, error), request *Q) (relayed[R], error) {
	retry := backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(relayRetryFirst), backoff.WithMaxInterval(relayRetryLast),
		backoff.WithMultiplier(2), backoff.WithRandomizationFactor(0.5), backoff.WithMaxElapsedTime(0),
	)
	waited := time.Now().Add(convert.Wait(request))
	for {
		var answer relayed[R]
		a.locked(func(t *tracker.Tracker) { answer.asOf = t.Epoch() })
		began := time.Now()
		response, err := call(ctx, request)
		switch {
		case err == nil:
			a.heardAgain()
			answer.msg = response
			return answer, nil
		case errors.Is(ctx.Err(), context.Canceled):
			return answer, err
		case !transient(err):
			a.heardAgain()
			return answer, err
		case ctx.Err() != nil:
			return answer, noAnswer(err)
		}
		if time.Since(began) > relayRetryLast {
			retry.Reset() // it was connected and waited: what failed now is new
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
func (a *Agent) awaitRetry(ctx context.Context, d time.Duration) bool {
	var answered <-chan struct{}
	a.locked(func(*tracker.Tracker) { answered = a.answered })
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

// noAnswer returns the error of a call that no coordinator answered in time. A coordinator that
// had too much to do did answer: its own words say what the caller can do about that.
func noAnswer(err error) error {
	if connect.CodeOf(err) == connect.CodeResourceExhausted && connect.IsWireError(err) {
		return err
	}
	return connect.NewError(connect.CodeUnavailable, fmt.Errorf("no coordinator answers: %w", &unreachedError{err}))
}

// unreachedError says in few words why no coordinator was reached: the last one's address and the
// system's word, if there are such.
type unreachedError struct{ err error }

func (e *unreachedError) Error() string {
	call, isCall := errors.AsType[*net.OpError](e.err)
	if errno, known := errors.AsType[syscall.Errno](e.err); known && isCall && call.Addr != nil {
		return call.Addr.String() + ": " + errno.Error()
	}
	return e.err.Error()
}

func (e *unreachedError) Unwrap() error { return e.err }

// inNameOf adds the caller to what is sent. The context then holds what the last call with it has
// sent and was answered.
func inNameOf(ctx context.Context) context.Context {
	ctx, info := connect.NewClientContext(ctx)
	if c := socket.CallerOf(ctx); c != nil {
		info.RequestHeader().Set(identity.Header, c.Header)
	}
	return ctx
}

// transient reports whether the error says nothing about the request: no coordinator answered, the
// connection broke, or the coordinator has too much to do to look at it. A coordinator that does
// not know this host yet says so: see unknownTo.
func transient(err error) bool {
	wire := connect.IsWireError(err)
	switch connect.CodeOf(err) {
	case connect.CodeUnavailable:
		_, early := insufficiency(err)
		return !early
	case connect.CodeUnknown, connect.CodeInternal, connect.CodeCanceled, connect.CodeDeadlineExceeded:
		return !wire // the client made it, as it had no whole answer
	case connect.CodeResourceExhausted:
		_, insufficient := insufficiency(err)
		return wire && !insufficient
	default:
		return false
	}
}

// insufficiency returns what was short, if a request was refused for lack of resources.
func insufficiency(err error) (*bursarv1.InsufficientResources, bool) {
	connectErr, ok := errors.AsType[*connect.Error](err)
	if !ok {
		return nil, false
	}
	for _, detail := range connectErr.Details() {
		if value, err := detail.Value(); err == nil {
			if short, ok := value.(*bursarv1.InsufficientResources); ok {
				return short, true
			}
		}
	}
	return nil, false
}

// bounded gives a call that has no deadline one: the time it may wait for resources, and the
// configured patience for a coordinator to answer at all.
func (a *Agent) bounded(ctx context.Context, wait time.Duration) (context.Context, context.CancelFunc) {
	if _, has := ctx.Deadline(); has {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, wait+a.settings().Patience)
}

// sized refuses what a coordinator would refuse for its size, without asking one.
func sized() connect.UnaryInterceptorFunc {
	return func(next connect.UnaryFunc) connect.UnaryFunc {
		return func(ctx context.Context, request connect.AnyRequest) (connect.AnyResponse, error) {
			if wrong, ok := convert.InvalidField(convert.CheckSize(request.Any())); ok {
				return nil, invalid(wrong.GetField(), wrong.GetValue(), wrong.GetWant())
			}
			return next(ctx, request)
		}
	}
}

// invalid refuses a request for one of its fields.
func invalid(field, value, want string) error {
	return withDetail(connect.NewError(connect.CodeInvalidArgument, fmt.Errorf("%s: %q: want %s", field, value, want)),
		&bursarv1.InvalidField{Field: field, Value: value, Want: want})
}
