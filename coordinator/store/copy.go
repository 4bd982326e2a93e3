package store

import (
	"context"
)

// CopyTarget is a store into which package copying can copy another store. It must be opened for
// that: see IntoCopy in the options of the backends.
type CopyTarget interface {
	Store

	// BeginCopy marks the store so that only a copy may write to it, gives it a new identity, and
	// deletes the rows of an unfinished copy. Until EndCopy only a Store that was opened for
	// copying can lead, and Open refuses it as Unfinished. source is the source of the copy,
	// without secrets; it is not empty. BeginCopy refuses a store with rows of its own with a
	// *RefusedError, NotEmpty.
	BeginCopy(ctx context.Context, source string) error

	// EndCopy makes it a normal store, with the source's sequence, last id and time. ErrDeposed:
	// another copy into it has begun.
	EndCopy(ctx context.Context, epoch uint64, source Meta) error
}

// RefuseUnfinished returns the refusal of a store with an unfinished copy.
func RefuseUnfinished(where, source string) error {
	return &RefusedError{
		Where: where, Reason: Unfinished, Found: "a copy from " + source + " was begun and not finished",
		Want: "the copy made again: bursar store copy --from " + source,
	}
}

// RefuseNotEmpty returns the refusal of a target with rows.
func RefuseNotEmpty(where string) error {
	return &RefusedError{
		Where: where, Reason: NotEmpty, Found: "it holds rows of its own", Want: "a place without rows to copy into",
	}
}
