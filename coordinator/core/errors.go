package core

import (
	"errors"
	"fmt"
)

// What callers see as UNAVAILABLE: nothing is known of what they asked for, and asking again with the same request id is
// right.
var (
	// ErrNotLeading answers what came while the coordinator was between two leaderships.
	ErrNotLeading = errors.New("not leading at the moment: try again")
	// ErrStopping answers what came while the coordinator was shutting down.
	ErrStopping = errors.New("shutting down: try again")
)

// PanicError is a fault of the ledger. The leadership in which it happened is over.
type PanicError struct {
	Cause any
	Stack []byte
	// Refused is what is refused, or canceled, from now on, because it is to blame. Empty: nothing is known to be.
	Refused string
}

func (e *PanicError) Error() string { return fmt.Sprintf("a fault of the coordinator: %v", e.Cause) }
