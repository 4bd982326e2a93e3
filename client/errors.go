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

// Insufficient returns what was short, if a request was refused for lack of resources. A
// RESOURCE_EXHAUSTED without it means that the server was too busy to look at the request.
func Insufficient(err error) (*bursarv1.InsufficientResources, bool) {
	return detail[*bursarv1.InsufficientResources](err)
}

// Never reports whether a request was refused for lack of resources that it can never get: it is
// larger than a quota's limit, the host that it names, or a queue's maximum. It is false if the
// server is too old to say so.
func Never(err error) bool {
	short, _ := Insufficient(err)
	return short.GetVerdict() == bursarv1.InsufficientResources_VERDICT_NEVER
}

// InvalidField returns the field that was wrong, if the server found it by its own rules.
func InvalidField(err error) (*bursarv1.InvalidField, bool) {
	return detail[*bursarv1.InvalidField](err)
}

// NotStarted returns the allocation of an engine that a Start could not make usable: it has ended,
// or was not ready in time.
func NotStarted(err error) (*bursarv1.Allocation, bool) { return detail[*bursarv1.Allocation](err) }

// Violations returns the fields that were wrong, if the contract's rules found them.
func Violations(err error) []*validate.Violation {
	found, _ := detail[*validate.Violations](err)
	return found.GetViolations()
}

// NotFound reports that there is no such allocation, host or rule.
func NotFound(err error) bool { return is(err, connect.CodeNotFound) }

// Precondition reports that the thing's state does not allow the call, such as a Confirm of a
// reservation that has expired.
func Precondition(err error) bool { return is(err, connect.CodeFailedPrecondition) }

// Invalid reports that the request is wrong in itself and will never be taken.
func Invalid(err error) bool { return is(err, connect.CodeInvalidArgument) }

// Denied reports that the caller may not do this.
func Denied(err error) bool {
	return is(err, connect.CodePermissionDenied) || is(err, connect.CodeUnauthenticated)
}

// Unavailable reports that nobody answered in time.
func Unavailable(err error) bool {
	return is(err, connect.CodeUnavailable) || is(err, connect.CodeDeadlineExceeded)
}

// Undecided reports that a call may have had its effect although it failed: an attempt of it,
// which need not be the last one, was sent and not answered, or the answer does not say. An
// Allocate that failed otherwise holds nothing and does not wait.
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

// looksWrong reports whether an attempt has failed for a reason that does not end by itself: nobody
// knows the name, the folder of the socket is not there, or the server is not one to trust. An
// address that refuses connections is right, as far as anybody can tell: its server may restart.
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

// Unconnected reports that a call has got no connection, so nothing of it was sent: nobody listens,
// no network leads to the address, nobody knows its name, or no address is known yet.
func Unconnected(err error) bool { return err != nil && isUnconnected(err) }

// isUnconnected reports whether an attempt has got no connection: nobody listens, no network leads
// to the address, nobody knows its name, or no address is known yet.
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

// hasNoFolder reports whether nobody listens at a Unix socket, and even its folder is missing. An
// agent that restarts leaves the folder.
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

// detail returns the first detail of that type.
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
