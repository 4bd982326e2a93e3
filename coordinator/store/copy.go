package store

import (
	"context"
)

// CopyTarget is a store that another store can be copied into, by package copying. It is opened
// for that: see IntoCopy in the options of the backends.
type CopyTarget interface {
	Store

	// BeginCopy marks the store so that only a copy may be written into it, gives it a new
	// identity, and deletes the rows of a copy that was not finished. Until EndCopy only a Store
	// that was opened for copying can lead, and Open refuses it as Unfinished. source is where the
	// copy comes from, without secrets; it is not empty. A store that has rows of its own is
	// refused with a *RefusedError, NotEmpty.
	BeginCopy(ctx context.Context, source string) error

	// EndCopy makes it a normal store, with the source's sequence, last id and time. ErrDeposed:
	// another copy into it has begun.
	EndCopy(ctx context.Context, epoch uint64, source Meta) error
}

// RefuseUnfinished is the refusal of a store with a copy that was begun and not finished.
func RefuseUnfinished(where, source string) error {
	return &RefusedError{
		Where: where, Reason: Unfinished, Found: "a copy from " + source + " was begun and not finished",
		Want: "the copy made again: bursar store copy --from " + source,
	}
}

// RefuseNotEmpty is the refusal of a target that holds rows.
func RefuseNotEmpty(where string) error {
	return &RefusedError{
		Where: where, Reason: NotEmpty, Found: "it holds rows of its own", Want: "a place without rows to copy into",
	}
}
