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

// forwardedHeader marks a call that another coordinator has forwarded; its value is the URL of that
// coordinator. Such a call is not forwarded again: two coordinators that take each other for the
// leader would send it back and forth.
const forwardedHeader = "Bursar-Forwarded"

// From returns the URL of the coordinator that has forwarded a call; empty if none has.
func From(header http.Header) string { return header.Get(forwardedHeader) }

// Options configure an Interceptor.
type Options struct {
	// Peers find the leader.
	Peers *Peers
	// Leading reports whether this coordinator leads.
	Leading func() bool
	// Stopping returns the error for calls once this coordinator shuts down; nil before.
	Stopping func() error
}

// Interceptor forwards calls to the leader, if this coordinator does not lead. Before, this
// coordinator has checked that the caller may make the call and that it is well formed. The leader
// checks it again. The deadline, the cancellation, and the caller's name and rights go with the
// call. All other headers are dropped.
//
// It is the innermost interceptor of handlers. Any goroutine may use it.
type Interceptor struct {
	peers    *Peers
	leading  func() bool
	stopping func() error
}

// New returns an interceptor.
func New(o Options) *Interceptor {
	return &Interceptor{peers: o.Peers, leading: o.Leading, stopping: o.Stopping}
}

var _ connect.Interceptor = (*Interceptor)(nil)

// WrapUnary forwards a call, unless this coordinator leads, or may answer from its last state.
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
		// without this, a leader that sends its answer byte by byte would hold the call for ever
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

// WrapStreamingHandler forwards a stream, unless this coordinator leads.
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

// Ask makes a unary call to the leader, which must be another coordinator, in the name of the
// caller of ctx.
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

// WrapStreamingClient changes nothing: it is for clients.
func (f *Interceptor) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return next
}

// forwardTime bounds the leader's time for a call without a deadline, in addition to the wait that
// the call asks for.
const forwardTime = time.Minute

// route returns the leader for a call, and the headers of the forwarded call.
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

// allowsStale reports whether the last known state may answer a request.
func allowsStale(message any) bool {
	m, can := message.(interface{ GetAllowStale() bool })
	return can && m.GetAllowStale()
}

// callerError converts the leader's error for the caller: code, message and details, without
// headers. If the leader did not answer, the result of the call is unknown. If the leader has the
// previous version, which lacks the procedure, the error says so, and the caller can do without. If
// a call that must not be repeated may have had its effect, the code is not UNAVAILABLE, because
// clients repeat such calls.
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
