package core

import (
	"errors"
	"fmt"
)

// Callers see these as UNAVAILABLE: the outcome of their call is unknown, and they should repeat it
// with the same request id.
var (
	// ErrNotLeading answers commands that came while the coordinator was between two leaderships.
	ErrNotLeading = errors.New("not leading at the moment: try again")
	// ErrStopping answers commands that came while the coordinator was shutting down.
	ErrStopping = errors.New("shutting down: try again")
)

// PanicError is a panic of the ledger. Its leadership is over.
type PanicError struct {
	Cause any
	Stack []byte
	// Refused names the command that is refused, or the request that is canceled, from now on,
	// because it caused the panic. Empty: the cause is not known.
	Refused string
}

func (e *PanicError) Error() string { return fmt.Sprintf("a fault of the coordinator: %v", e.Cause) }
