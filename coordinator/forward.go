package coordinator

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"connectrpc.com/connect"

	"github.com/bursar/bursar/coordinator/auth"
	"github.com/bursar/bursar/proto/convert"
)

// forwardedHeader marks a call that another coordinator has passed on; its value is that one's URL. It is not passed on again: two
// that take each other for the leader would play ball with it.
const forwardedHeader = "Bursar-Forwarded"

// forwarder passes calls on to the coordinator that leads, where this one does not. What it passes on has been looked at: its caller
// may make it, and it is well formed. The leader looks again. Deadlines and the end of a call travel with it, as do the caller's
// name and rights; the rest of the headers ends here.
type forwarder struct {
	writer *writer
	peers  *peers
}

var _ connect.Interceptor = (*forwarder)(nil)

// WrapUnary passes a call on, unless this coordinator leads, or may answer with what it last saw.
func (f *forwarder) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
		if f.writer.leads.Load() || allowsStale(req.Any()) {
			return next(ctx, req)
		}
		to, header, err := f.way(ctx, req.Header())
		if err != nil {
			return nil, err
		}
		ctx, cancel := to.reachable(ctx)
		defer cancel()
		if _, bounded := ctx.Deadline(); !bounded { // or a leader that sends its answer a byte at a time would keep it for ever
			var expire context.CancelFunc
			ctx, expire = context.WithTimeout(ctx, forwardTime+convert.Wait(req.Any()))
			defer expire()
		}
		res, err := to.unary[req.Spec().Procedure](ctx, req.Any(), header)
		return res, passedBack(ctx, to, err)
	}
}

// WrapStreamingHandler passes a stream on, unless this coordinator leads.
func (f *forwarder) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return func(ctx context.Context, conn connect.StreamingHandlerConn) error {
		if f.writer.leads.Load() {
			return next(ctx, conn)
		}
		to, header, err := f.way(ctx, conn.RequestHeader())
		if err != nil {
			return err
		}
		ctx, cancel := to.reachable(ctx)
		defer cancel()
		return passedBack(ctx, to, to.streams[conn.Spec().Procedure](ctx, conn, header))
	}
}

// WrapStreamingClient changes nothing: this is a server.
func (f *forwarder) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return next
}

// forwardTime is how long the leader may take for a call whose caller does not say, beyond what it asks to wait for.
const forwardTime = time.Minute

// way returns where a call goes, and what goes with it.
func (f *forwarder) way(ctx context.Context, received http.Header) (*leader, http.Header, error) {
	if f.writer.isStopping() {
		return nil, nil, ErrStopping
	}
	to, self := f.peers.find()
	switch {
	case received.Get(forwardedHeader) != "":
		return nil, nil, ErrNotLeading
	case to == nil:
		return nil, nil, errLeaderless
	}
	if err := f.peers.fault(); err != nil {
		return nil, nil, connect.NewError(connect.CodeUnavailable, err)
	}
	header, err := f.peers.introduction(self, auth.ActorOf(ctx))
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

// passedBack is the leader's error as the caller gets it: code, words and details, without the headers that it came with. Where the
// leader did not answer, nothing is known of the call.
func passedBack(ctx context.Context, to *leader, err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(context.Cause(ctx), ErrNotLeading) {
		return fmt.Errorf("%w: the lead has gone from %s to another coordinator", ErrNotLeading, to.url)
	}
	answer, ok := errors.AsType[*connect.Error](err)
	if !ok {
		return err
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
