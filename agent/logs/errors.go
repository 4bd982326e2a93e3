package logs

import (
	"context"
	"errors"

	"connectrpc.com/connect"

	"github.com/bursar/bursar/agent/output"
)

// withCode gives an error the code that readers decide on.
func withCode(err error) error {
	if _, has := errors.AsType[*connect.Error](err); has || err == nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return connect.NewError(codeOf(err), err)
}

func codeOf(err error) connect.Code {
	if _, busy := errors.AsType[*output.BusyError](err); busy {
		return connect.CodeResourceExhausted
	}
	if _, elsewhere := errors.AsType[*output.NotHereError](err); elsewhere {
		return connect.CodeFailedPrecondition
	}
	if _, other := errors.AsType[*output.AccountError](err); other {
		return connect.CodeFailedPrecondition
	}
	wrong, ofHelper := errors.AsType[*output.Error](err)
	switch {
	case !ofHelper: // no helper could be started, or its user has ended it
		return connect.CodeUnavailable
	case wrong.Code == output.Invalid:
		return connect.CodeInvalidArgument
	case wrong.Code == output.Internal:
		return connect.CodeInternal
	}
	return connect.CodeFailedPrecondition
}
