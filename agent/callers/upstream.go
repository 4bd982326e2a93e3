package callers

import (
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"

	"connectrpc.com/connect"

	"github.com/bursar/bursar/agent/socket"
	"github.com/bursar/bursar/internal/identity"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// unsettled is the error of a call of which an attempt may have had its effect. A coordinator that
// had too much to do for a later attempt has not refused the call.
func unsettled(err error) error {
	busy, ok := errors.AsType[*connect.Error](err)
	if !ok || busy.Code() != connect.CodeResourceExhausted || !IsTransient(err) {
		return err
	}
	unavailable := connect.NewError(connect.CodeUnavailable, fmt.Errorf("no coordinator says what became of it: %s", busy.Message()))
	for _, detail := range busy.Details() { // when to try again
		unavailable.AddDetail(detail)
	}
	return unavailable
}

// noAnswer returns the error of a call that no coordinator answered in time. A coordinator that had
// too much to do did answer: its own words help the caller further.
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

// inNameOf adds the caller to the headers of a call. The context then holds the headers that the
// last call with it has sent and received.
func inNameOf(ctx context.Context) context.Context {
	ctx, info := connect.NewClientContext(ctx)
	if c := socket.CallerOf(ctx); c != nil {
		info.RequestHeader().Set(identity.Header, c.Header)
	}
	return ctx
}

// IsTransient reports whether the error says nothing about the request: no coordinator answered,
// the connection broke, or the coordinator has too much to do to look at it. A coordinator that
// does not know this host yet says so: see unknownTo.
func IsTransient(err error) bool {
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

// insufficiency returns the shortfalls, if a request was refused for lack of resources.
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
