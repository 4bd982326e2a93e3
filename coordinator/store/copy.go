package store

import (
	"context"
)

// CopyTarget is a store that another one can be copied into, by package copying. It is opened for that: see IntoCopy among the
// options of the backends.
type CopyTarget interface {
	Store

	// BeginCopy makes the store one that only a copy may be written into, gives it a new identity, and takes away what a copy that was
	// not finished has left. Until EndCopy nobody leads it who has not opened it for copying, and Open refuses it as
	// Unfinished. source is where the copy comes from, without secrets; not empty. A store that holds rows of its own is refused with
	// a *RefusedError, NotEmpty.
	BeginCopy(ctx context.Context, source string) error

	// EndCopy makes the store one like any other, at the source's sequence, last id and time. ErrDeposed: another copy into it has begun.
	EndCopy(ctx context.Context, epoch uint64, source Meta) error
}

// RefuseUnfinished is the refusal of a store into which a copy was begun and not finished.
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
