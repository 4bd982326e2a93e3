package client

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"

	"buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go/buf/validate"
	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"github.com/bursar/bursar/internal/credential"
	"github.com/bursar/bursar/internal/discovery"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// Insufficient returns the missing resources if a request was refused for lack of resources.
// RESOURCE_EXHAUSTED without them means that the server was too busy to handle the request.
func Insufficient(err error) (*bursarv1.InsufficientResources, bool) {
	return detail[*bursarv1.InsufficientResources](err)
}

// Never reports whether a request was refused because it can never be granted: it is larger than a
// quota's limit, the host that it names, or a queue's maximum. It is false if the server is too old
// to report that.
func Never(err error) bool {
	short, _ := Insufficient(err)
	return short.GetVerdict() == bursarv1.InsufficientResources_VERDICT_NEVER
}

// InvalidField returns the invalid field, if the server's own rules found it.
func InvalidField(err error) (*bursarv1.InvalidField, bool) {
	return detail[*bursarv1.InvalidField](err)
}

// NotStarted returns the allocation of an engine that a Start could not make usable: it has ended,
// or was not ready in time.
func NotStarted(err error) (*bursarv1.Allocation, bool) { return detail[*bursarv1.Allocation](err) }

// Violations returns the invalid fields, if the contract's rules found them.
func Violations(err error) []*validate.Violation {
	found, _ := detail[*validate.Violations](err)
	return found.GetViolations()
}

// NotFound reports whether the allocation, host or rule does not exist.
func NotFound(err error) bool { return is(err, connect.CodeNotFound) }

// Precondition reports whether the current state does not allow the call, such as a Confirm of an
// expired reservation.
func Precondition(err error) bool { return is(err, connect.CodeFailedPrecondition) }

// Invalid reports whether the request itself is invalid and can never succeed.
func Invalid(err error) bool { return is(err, connect.CodeInvalidArgument) }

// Denied reports whether the caller is not authenticated or lacks permission.
func Denied(err error) bool {
	return is(err, connect.CodePermissionDenied) || is(err, connect.CodeUnauthenticated)
}

// Unavailable reports whether nobody answered in time.
func Unavailable(err error) bool {
	return is(err, connect.CodeUnavailable) || is(err, connect.CodeDeadlineExceeded)
}

// Undecided reports whether a failed call may have had its effect: one of its attempts, not
// necessarily the last, was sent and not answered, or the answer does not show it. An Allocate that
// failed otherwise holds nothing and does not wait.
func Undecided(err error) bool {
	if err == nil {
		return false
	}
	if _, earlier := errors.AsType[*undecidedError](err); earlier {
		return true
	}
	if dial, ok := errors.AsType[*net.OpError](err); ok && dial.Op == "dial" {
		return false // nothing was sent
	}
	switch connect.CodeOf(err) {
	case connect.CodeCanceled, connect.CodeDeadlineExceeded, connect.CodeUnavailable, connect.CodeUnknown, connect.CodeInternal:
		return true
	default:
		return !connect.IsWireError(err)
	}
}

// looksWrong reports whether an attempt failed for a lasting reason: the name does not resolve, the
// folder of the socket is missing, or the server is not trusted. An address that refuses
// connections counts as right: its server may be restarting.
func looksWrong(err error) bool {
	if connect.IsWireError(err) {
		return false
	}
	if name, ok := errors.AsType[*net.DNSError](err); ok {
		return name.IsNotFound
	}
	_, untrusted := errors.AsType[*credential.TrustError](err)
	_, foreign := errors.AsType[*discovery.ForeignServerError](err)
	return untrusted || foreign || hasNoFolder(err)
}

// Unconnected reports whether a call got no connection, so that nothing of it was sent: nobody
// listens, no network leads to the address, its name does not resolve, or no address is known yet.
func Unconnected(err error) bool { return err != nil && isUnconnected(err) }

// isUnconnected reports whether an attempt got no connection: nobody listens, no network leads to
// the address, its name does not resolve, or no address is known yet.
func isUnconnected(err error) bool {
	if connect.IsWireError(err) {
		return false
	}
	if errors.Is(err, errNoneKnown) {
		return true
	}
	_, unnamed := errors.AsType[*net.DNSError](err)
	call, ok := errors.AsType[*net.OpError](err)
	return unnamed || ok && call.Op == "dial"
}

// hasNoFolder reports whether nobody listens at a Unix socket and its folder is missing. An agent
// that restarts keeps the folder.
func hasNoFolder(err error) bool {
	dial, ok := errors.AsType[*net.OpError](err)
	if !ok || dial.Addr == nil || dial.Addr.Network() != "unix" || !errors.Is(err, fs.ErrNotExist) {
		return false
	}
	_, err = os.Stat(filepath.Dir(dial.Addr.String()))
	return errors.Is(err, fs.ErrNotExist)
}

// undecidedError is the last error of a call with an undecided attempt.
type undecidedError struct{ error }

func (e *undecidedError) Unwrap() error { return e.error }

func is(err error, code connect.Code) bool { return err != nil && connect.CodeOf(err) == code }

// detail returns the first detail of this type.
func detail[M proto.Message](err error) (found M, ok bool) {
	var connectErr *connect.Error
	if !errors.As(err, &connectErr) {
		return found, false
	}
	for _, d := range connectErr.Details() {
		value, valueErr := d.Value()
		if valueErr != nil {
			continue // of a type that this version does not know
		}
		if m, isType := value.(M); isType {
			return m, true
		}
	}
	return found, false
}
