package store

import (
	"errors"
	"fmt"
)

// The errors that callers check with errors.Is.
var (
	// ErrDeposed says that the epoch may not write, or no longer.
	ErrDeposed = errors.New("deposed: another leadership has begun")
	// ErrUnknownOutcome says that a commit may or may not have happened.
	ErrUnknownOutcome = errors.New("outcome unknown: the commit may or may not have happened")
	// ErrNotFound says that there is no such allocation.
	ErrNotFound = errors.New("no such allocation in the store")
	// ErrBadToken says that a page token does not come from this kind of store.
	ErrBadToken = errors.New("page token: want one that an earlier page came with")
	// ErrClosed says that the store has been closed.
	ErrClosed = errors.New("the store is closed")
	// ErrFull says that a write found no room: the disk, a quota or a size limit.
	ErrFull = errors.New("no space left for the store")
	// ErrReadOnly says that the store cannot be written to.
	ErrReadOnly = errors.New("the store is read-only")
	// ErrDamaged says that the store's own structure is broken.
	ErrDamaged = errors.New("the store is damaged")
	// ErrIO says that reading or writing failed below the store.
	ErrIO = errors.New("input or output error under the store")
	// ErrGone says that the store's file was removed, moved or replaced while the store was open:
	// new writes would be lost.
	ErrGone = errors.New("the store's file is gone")
	// ErrAway says that the store's server cannot be reached now. The caller should try again.
	ErrAway = errors.New("the store cannot be reached")
)

// DeposedError is an ErrDeposed with the epochs.
type DeposedError struct {
	Epoch  uint64 // of the call
	Stored uint64 // may write; the same as Epoch if an error ended it
}

func (e *DeposedError) Error() string {
	if e.Epoch == e.Stored {
		return fmt.Sprintf("deposed: epoch %d ended with a commit that failed: want Lead first", e.Epoch)
	}
	return fmt.Sprintf("deposed: epoch %d may not write, the store is at epoch %d", e.Epoch, e.Stored)
}

// Is makes the error an ErrDeposed.
func (e *DeposedError) Is(target error) bool { return target == ErrDeposed }

// RowError names a row that cannot be read, or a value that cannot be written. The call fails; it
// does not skip the row.
type RowError struct {
	Table string // "allocation", "host", "quota", "provider" or "refusal"
	Key   string // the id, the selector, or kind and cluster
	Err   error
}

func (e *RowError) Error() string { return fmt.Sprintf("store: %s %q: %v", e.Table, e.Key, e.Err) }

// Unwrap returns the cause.
func (e *RowError) Unwrap() error { return e.Err }

// Refusal is the reason why a store was not opened, or cannot be led.
type Refusal uint8

// The refusals of Open.
const (
	InUse   Refusal = iota + 1 // another process has it open
	Foreign                    // it is not a store of Bursar
	Damaged                    // it is a broken store
	Newer                      // it is of a later version
	Denied                     // this process may not read and write it
	// Older: its tables must be migrated first, and Open was not allowed to.
	Older
	// OtherCluster: it belongs to another cluster.
	OtherCluster
	// Unfinished: it has an unfinished copy.
	Unfinished
	// NotEmpty: a copy into it would lose its rows.
	NotEmpty
	// OtherStore: it is not the store that this process opened before.
	OtherStore
	// Malformed: its address cannot be read.
	Malformed
)

func (r Refusal) String() string {
	switch r {
	case InUse:
		return "in use"
	case Foreign:
		return "not a bursar store"
	case Damaged:
		return "damaged"
	case Newer:
		return "from a newer version"
	case Denied:
		return "not accessible"
	case Older:
		return "from an older version"
	case OtherCluster:
		return "another cluster's"
	case Unfinished:
		return "an unfinished copy"
	case NotEmpty:
		return "not empty"
	case OtherStore:
		return "another store"
	case Malformed:
		return "not accessible"
	default:
		return "refused"
	}
}

// RefusedError says why a store cannot be used, with a remedy. The store is unchanged.
type RefusedError struct {
	Where  string // the file, or the database without its secrets
	Reason Refusal
	Found  string // the state of the store
	Want   string // the remedy, to be read after "want "
	Err    error  // the cause; nil if there is none
}

func (e *RefusedError) Error() string {
	return fmt.Sprintf("store %s: %s: %s: want %s", e.Where, e.Reason, e.Found, e.Want)
}

// Unwrap returns the cause.
func (e *RefusedError) Unwrap() error { return e.Err }
