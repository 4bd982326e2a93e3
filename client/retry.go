package client

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"syscall"
	"time"

	"connectrpc.com/connect"
	"github.com/cenkalti/backoff/v4"
	"google.golang.org/protobuf/proto"

	"github.com/bursar/bursar/internal/credential"
	"github.com/bursar/bursar/internal/identity"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/proto/bursar/v1/bursarv1connect"
	"github.com/bursar/bursar/proto/convert"
)

// callInterceptor is the interceptor of every call: it sets the caller and a deadline, and repeats
// the call.
type callInterceptor struct {
	settings settings
	router   *router // nil: one server
}

var _ connect.Interceptor = (*callInterceptor)(nil)

// WrapUnary repeats the call by the policy.
func (c *callInterceptor) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
		policy, wait := c.settings.retries, convert.Wait(req.Any())
		_, bounded := ctx.Deadline()
		if (bounded || wait > 0) && policy.Patience >= 0 {
			policy.Patience = untilDeadline // the caller's own limit applies
		}
		if wait > 0 {
			policy.Absent = 0 // it waits anyway
		}
		d := newDelays(ctx, policy, wait)
		if c.settings.reached != nil {
			d.reached = c.settings.reached
		}
		if !bounded {
			d.timeout = c.settings.timeout
			d.end = time.Now().Add(d.timeout + wait)
		}
		call := func() (connect.AnyResponse, error) {
			ctx, cancel := d.attemptContext(ctx)
			defer cancel()
			if err := c.setIdentity(req.Header()); err != nil {
				return nil, err
			}
			ctx, at := c.router.newDestination(ctx)
			res, err := next(ctx, req)
			err = brokenIsUnavailable(ctx, err)
			if err == nil {
				d.reached.Store(true)
			}
			c.router.attemptEnded(at, err)
			if req.Spec().Procedure == bursarv1connect.EngineServiceSignalProcedure && Undecided(err) && !connect.IsWireError(err) {
				err = backoff.Permanent(err) // the signal may have been sent: a second one could have another effect
			}
			return res, err
		}
		if policy.Patience < 0 || req.Spec().Procedure == bursarv1connect.HostServiceSyncProcedure {
			return call()
		}
		if _, launches := req.Any().(*bursarv1.LaunchRequest); wait <= 0 && !launches {
			defer d.notify(c.settings.notifyAfter, c.settings.notify)()
		}
		allocate, can := req.(*connect.Request[bursarv1.AllocateRequest])
		if !can || wait <= 0 {
			return repeat(ctx, policy, d, call)
		}
		allocate.Msg = proto.CloneOf(allocate.Msg) // its wait changes
		return repeat(ctx, policy, d, func() (connect.AnyResponse, error) {
			convert.WaitAtMost(allocate.Msg, time.Until(d.waited))
			return call()
		})
	}
}

// setIdentity puts the caller and its cluster into the headers.
func (c *callInterceptor) setIdentity(header http.Header) error {
	c.settings.pin.Held().Put(header)
	if c.settings.actor != "" {
		header.Set(identity.Header, c.settings.actor)
	}
	if c.settings.token == nil {
		return nil
	}
	token, err := c.settings.token()
	if err != nil {
		return connect.NewError(connect.CodeUnauthenticated, err)
	}
	if token != "" {
		header.Set("Authorization", "Bearer "+token)
	}
	return nil
}

// WrapStreamingClient sets the caller, and checks how the stream ends. WatchAllocations and
// WatchCluster resume streams: they know the last revision.
func (c *callInterceptor) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return func(ctx context.Context, spec connect.Spec) connect.StreamingClientConn {
		ctx, at := c.router.newDestination(ctx)
		s := &stream{StreamingClientConn: next(ctx, spec), ctx: ctx, router: c.router, destination: at}
		s.refused = c.setIdentity(s.RequestHeader())
		return s
	}
}

// WrapStreamingHandler changes nothing: this is a client.
func (c *callInterceptor) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return next
}

// repeat makes the call until it is answered, its error is permanent, or no time is left for
// another attempt. Without time it returns the error of the last attempt, which is more useful than
// an expired deadline.
func repeat(ctx context.Context, policy RetryPolicy, delays *delays, call func() (connect.AnyResponse, error)) (connect.AnyResponse, error) {
	var last error
	open := false
	res, err := backoff.RetryWithData(func() (connect.AnyResponse, error) {
		began := time.Now()
		res, err := call()
		open = open || Undecided(err)
		switch {
		case err == nil:
			return res, nil
		case !retriable(err):
			return nil, backoff.Permanent(err)
		case time.Since(began) > policy.Longest:
			delays.Reset() // it was connected and waited: this is a new failure
		}
		last = err
		delays.attemptFailed(err)
		return nil, err
	}, backoff.WithContext(delays, ctx))
	switch {
	case err == nil:
		return res, nil
	case errors.Is(err, context.DeadlineExceeded) && delays.isOver() && last != nil:
		err = last
	case errors.Is(err, context.Canceled) && ctx.Err() != nil:
		err = connect.NewError(connect.CodeCanceled, err)
	}
	if open {
		err = &undecidedError{err}
	}
	return nil, err
}

// retriable reports whether another attempt may succeed.
func retriable(err error) bool {
	switch connect.CodeOf(err) {
	case connect.CodeUnavailable:
		return true
	case connect.CodeResourceExhausted:
		// The server's queue is full. With the detail it is the answer to the request itself; an
		// error of the client is about the size of a message.
		_, insufficient := Insufficient(err)
		return !insufficient && connect.IsWireError(err)
	default:
		return false
	}
}

// brokenIsUnavailable gives an error the code UNAVAILABLE if the connection broke during the call
// or was not made in time, and adds advice if it broke for lack of trust. The library reports that
// as CANCELED, DEADLINE_EXCEEDED, UNKNOWN or INTERNAL, depending on the moment in the call, as if
// the client had gone away and not the server.
func brokenIsUnavailable(ctx context.Context, err error) error {
	if err == nil || ctx.Err() != nil || connect.IsWireError(err) {
		return err
	}
	var call *connect.Error
	if !errors.As(err, &call) {
		return err
	}
	if advised := credential.Describe(call.Unwrap()); advised != call.Unwrap() { //nolint:errorlint // the same, or one around it
		return connect.NewError(connect.CodeUnavailable, advised)
	}
	timeout, ok := errors.AsType[net.Error](call.Unwrap()) // ctx is not over: the timeout is not the caller's
	broken := ok && timeout.Timeout() || errors.Is(err, errHangs) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
	if !broken || call.Code() == connect.CodeUnavailable {
		return err
	}
	return connect.NewError(connect.CodeUnavailable, call.Unwrap())
}
