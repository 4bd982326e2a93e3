package forward

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"connectrpc.com/connect"

	"github.com/bursar/bursar/coordinator/auth"
	"github.com/bursar/bursar/proto/convert"
)

// forwardedHeader marks a call that another coordinator has passed on; its value is that one's
// URL. It is not passed on again: two that take each other for the leader would pass it back and
// forth.
const forwardedHeader = "Bursar-Forwarded"

// From is the URL of the coordinator that has passed on a call with these headers; empty: none has.
func From(header http.Header) string { return header.Get(forwardedHeader) }

// Options are what an Interceptor needs.
type Options struct {
	// Peers know who leads.
	Peers *Peers
	// Leading reports whether this coordinator leads.
	Leading func() bool
	// Stopping is what calls are answered with once this coordinator shuts down; nil before.
	Stopping func() error
}

// Interceptor passes calls on to the coordinator that leads, if this one does not. What it passes
// on has been looked at: its caller may make it, and it is well formed. The leader looks again.
// Deadlines and the end of a call travel with it, as do the caller's name and rights; the rest of
// the headers ends here.
//
// It is the innermost interceptor of handlers. Any goroutine may use it.
type Interceptor struct {
	peers    *Peers
	leading  func() bool
	stopping func() error
}

// New makes one.
func New(o Options) *Interceptor {
	return &Interceptor{peers: o.Peers, leading: o.Leading, stopping: o.Stopping}
}

var _ connect.Interceptor = (*Interceptor)(nil)

// WrapUnary passes a call on, unless this coordinator leads, or may answer with what it last saw.
func (f *Interceptor) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
		if f.leading() || allowsStale(req.Any()) || isBetween(req.Spec().Procedure) {
			return next(ctx, req)
		}
		to, header, err := f.route(ctx, req.Header())
		if err != nil {
			return nil, err
		}
		ctx, cancel := to.reachable(ctx)
		defer cancel()
		// or a leader that sends its answer a byte at a time would keep it for ever
		if _, bounded := ctx.Deadline(); !bounded {
			var expire context.CancelFunc
			ctx, expire = context.WithTimeout(ctx, forwardTime+convert.Wait(req.Any()))
			defer expire()
		}
		auth.Parked(ctx)
		procedure := req.Spec().Procedure
		res, err := to.unary[procedure](ctx, req.Any(), header)
		auth.Resumed(ctx)
		return res, f.callerError(ctx, to, procedure, err)
	}
}

// WrapStreamingHandler passes a stream on, unless this coordinator leads.
func (f *Interceptor) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return func(ctx context.Context, conn connect.StreamingHandlerConn) error {
		if f.leading() || isOwn(conn.Spec().Procedure) {
			return next(ctx, conn)
		}
		to, header, err := f.route(ctx, conn.RequestHeader())
		if err != nil {
			return err
		}
		ctx, cancel := to.reachable(ctx)
		defer cancel()
		procedure := conn.Spec().Procedure
		return f.callerError(ctx, to, procedure, to.streams[procedure](ctx, conn, header))
	}
}

// Ask makes a call with one answer to the leader, which must be another coordinator, in the name of
// the caller of ctx.
func (f *Interceptor) Ask(ctx context.Context, procedure string, message any) (any, error) {
	to, header, err := f.route(ctx, http.Header{})
	if err != nil {
		return nil, err
	}
	ctx, cancel := to.reachable(ctx)
	defer cancel()
	res, err := to.unary[procedure](ctx, message, header)
	if err != nil {
		return nil, f.callerError(ctx, to, procedure, err)
	}
	return res.Any(), nil
}

// Leads reports whether this coordinator leads.
func (f *Interceptor) Leads() bool { return f.leading() }

// WrapStreamingClient changes nothing: this is a server.
func (f *Interceptor) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return next
}

// forwardTime is how long the leader may take for a call without a deadline, in addition to what
// it asks to wait for.
const forwardTime = time.Minute

// route returns the leader that a call goes to, and the headers that go with it.
func (f *Interceptor) route(ctx context.Context, received http.Header) (*leader, http.Header, error) {
	if err := f.stopping(); err != nil {
		return nil, nil, err
	}
	to, self := f.peers.target()
	switch {
	case received.Get(forwardedHeader) != "":
		return nil, nil, f.peers.because(f.peers.notLeading)
	case to == nil:
		return nil, nil, f.peers.leaderless()
	}
	if err := f.peers.Route().Fault; err != nil {
		return nil, nil, connect.NewError(connect.CodeUnavailable, err)
	}
	header, err := f.peers.headers(self, auth.ActorOf(ctx))
	if err != nil {
		return nil, nil, err
	}
	return to, header, nil
}

// allowsStale reports whether a request may be answered with what was last seen.
func allowsStale(message any) bool {
	m, can := message.(interface{ GetAllowStale() bool })
	return can && m.GetAllowStale()
}

// callerError is the leader's error as the caller gets it: code, words and details, without its
// headers. If the leader did not answer, nothing is known of the call. If it is of the version
// before and does not have the call, the caller is told so, and can do without. A call that must
// not be made twice is not UNAVAILABLE if it may have had its effect: clients repeat a call that
// is.
func (f *Interceptor) callerError(ctx context.Context, to *leader, procedure string, err error) error {
	if err == nil {
		return nil
	}
	over := errors.Is(context.Cause(ctx), f.peers.notLeading)
	if isOnce(procedure) && mayHaveArrived(err) && (over || !connect.IsWireError(err) && ctx.Err() == nil) {
		return connect.NewError(connect.CodeDeadlineExceeded, fmt.Errorf("the leader %s has not answered: the signal may have been sent, or not", to.url))
	}
	if over {
		return fmt.Errorf("%w: the lead has gone from %s to another coordinator", f.peers.notLeading, to.url)
	}
	answer, ok := errors.AsType[*connect.Error](err)
	if !ok {
		return err
	}
	if answer.Code() == connect.CodeUnimplemented && isNew(procedure) {
		return connect.NewError(connect.CodeUnimplemented, fmt.Errorf("the leader %s is of an earlier version, which does not have %s", to.url, procedure))
	}
	if !connect.IsWireError(err) && ctx.Err() == nil && answer.Code() != connect.CodeResourceExhausted {
		return connect.NewError(connect.CodeUnavailable, fmt.Errorf("the leader %s does not answer: %w", to.url, answer.Unwrap()))
	}
	if answer.Code() == connect.CodeUnauthenticated {
		return connect.NewError(connect.CodeUnavailable, fmt.Errorf(
			"the leader %s does not know this coordinator (%s): want peers.tokenFile or peers.tls in its configuration that the leader knows", to.url, answer.Message()))
	}
	passed := connect.NewError(answer.Code(), errors.New(answer.Message()))
	for _, detail := range answer.Details() {
		passed.AddDetail(detail)
	}
	return passed
}

// mayHaveArrived reports whether the leader may have got a call that has failed.
func mayHaveArrived(err error) bool {
	dial, ok := errors.AsType[*net.OpError](err)
	return !ok || dial.Op != "dial"
}
