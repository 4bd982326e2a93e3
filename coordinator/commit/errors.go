package commit

import (
	"errors"
	"fmt"

	"github.com/bursar/bursar/coordinator/store"
)

// ErrBusy refuses a command because too many commands of its caller, or of all callers, wait.
// Nothing was done; the caller should try again.
var ErrBusy = errors.New("too many commands are waiting: try again")

// Error answers the callers of a batch whose durability is unknown.
type Error struct {
	Err error // the store's
}

func (e *Error) Error() string {
	why := e.Err
	// the row may be another caller's; the log has it in full
	if _, ok := errors.AsType[*store.RowError](why); ok {
		why = errRefusedRow
	}
	return fmt.Sprintf("could not be made durable (%v): try again with the same request_id", why)
}

var errRefusedRow = errors.New("the store refused a row of the batch")

// Unwrap returns the store's error.
func (e *Error) Unwrap() error { return e.Err }

// LookUpError refuses a request because the store cannot say whether an ended allocation had its
// request id.
type LookUpError struct {
	RequestID string
	Err       error // the store's
}

func (e *LookUpError) Error() string {
	return fmt.Sprintf("request_id: %q: the store does not say whether it was used before (%v): try again with the same one", e.RequestID, e.Err)
}

// Unwrap returns the store's error.
func (e *LookUpError) Unwrap() error { return e.Err }

// PatienceError ends a call whose own deadline comes before the end of its requested wait.
type PatienceError struct {
	RequestID string
}

func (e *PatienceError) Error() string {
	if e.RequestID == "" {
		return "still waiting when the call's deadline came: want a deadline beyond the wait, or a request_id to ask again with"
	}
	return fmt.Sprintf("request_id: %q: still waiting when the call's deadline came: ask again soon with the same one to keep the place", e.RequestID)
}
