package outputs

import (
	"errors"
	"fmt"

	"connectrpc.com/connect"
)

// ErrNoReader refuses an agent's call: its ticket is not known here, was used, or its reader is
// gone.
var ErrNoReader = errors.New("no reader waits here for output with this ticket")

// ErrOtherHost refuses the call of another host's agent than the order went to.
var ErrOtherHost = errors.New("the ticket is for the agent of another host")

// BusyError refuses a reader beyond a bound.
type BusyError struct {
	// Caller has as many readers as one may have; empty: all callers together do.
	Caller string
	Limit  int
}

func (e *BusyError) Error() string {
	if e.Caller == "" {
		return fmt.Sprintf("%d readers of output are open at this coordinator: want fewer; try again later, or another coordinator", e.Limit)
	}
	return fmt.Sprintf("caller %s has %d readers of output open at this coordinator: want fewer; close one", e.Caller, e.Limit)
}

// AwayError says that nobody sends the output now. The reader may go on later, at the next byte.
type AwayError struct {
	// Next is the offset of the next byte; -1: nothing was sent yet.
	Next int64
	Err  error
}

func (e *AwayError) Error() string {
	if e.Next < 0 {
		return fmt.Sprintf("the output does not come: %v", e.Err)
	}
	return fmt.Sprintf("the output does not go on at byte %d: %v", e.Next, e.Err)
}

// Unwrap returns the cause.
func (e *AwayError) Unwrap() error { return e.Err }

// lateError says that an agent has taken the order and did not call.
type lateError struct{ host, url string }

func (e *lateError) Error() string {
	text := fmt.Sprintf("the agent of host %s has not called this coordinator within %s: its log says why", e.host, arrivalTime)
	if e.url != "" {
		text += fmt.Sprintf("; it calls %s only if it knows that address as one of its coordinators", e.url)
	}
	return text + "; an agent of an older version sends no output"
}

// brokenError says that an agent's call has ended before the output.
type brokenError struct{ err error }

func (e *brokenError) Error() string {
	if e.err == nil {
		return "the agent has ended its call before the output ended"
	}
	return "the agent's call broke: " + e.err.Error()
}

// wrongError says that an agent has sent something else than was ordered.
type wrongError struct{ what string }

func (e *wrongError) Error() string { return "the host's agent sends wrong output: " + e.what }

// problemError is an error that the agent reports.
func problemError(code, message string) error {
	known := connect.CodeInternal
	if err := known.UnmarshalText([]byte(code)); err != nil {
		known = connect.CodeInternal
	}
	return connect.NewError(known, errors.New(message))
}

// passes reports whether an error may be over soon, so that the output is ordered again. A host
// that is away (DEADLINE_EXCEEDED) may come back to a reader to whom it has sent before; another
// reader hears of it at once.
func passes(err error, arrived bool) bool {
	if _, broken := errors.AsType[*brokenError](err); broken {
		return true
	}
	if _, late := errors.AsType[*lateError](err); late {
		return true
	}
	code := connect.CodeOf(err)
	return code == connect.CodeUnavailable || arrived && code == connect.CodeDeadlineExceeded
}
