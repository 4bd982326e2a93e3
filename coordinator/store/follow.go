package store

import (
	"context"
	"encoding/binary"
	"errors"

	"github.com/bursar/bursar/coordinator/ledger"
)

// ErrNotFollowed is the error of a store that only one process can have open: nobody stands by.
var ErrNotFollowed = errors.New("store: it cannot be followed: one process has it alone")

// Mark names a state of a store: the one that a commit has left at a sequence. A store that is put
// back to an earlier state gives out sequences again, but not in the same leadership. The zero
// value names no state.
type Mark struct {
	Sequence   uint64
	Leadership string // whose commit it was
}

// Followed is one state of a store, for a reader that has the rows of a mark.
type Followed struct {
	Meta Meta
	// Mark names this state. It is zero if nothing does, because a version that keeps no record of
	// changes has committed last: then no rows are read.
	Mark Mark
	// Whole says that Rows has all rows, because not all changes since the mark are recorded. If
	// not, Rows has the hosts and the live allocations that have changed since, and Ended and
	// HostsRemoved name what is gone, or not live any more.
	Whole        bool
	Rows         ledger.Snapshot
	Ended        []ledger.ID
	HostsRemoved []string
	// Rest says that Rows has all rules, providers and refusals. If not, no rule and no provider
	// has changed.
	Rest bool
	// LastEnd is the latest end of any allocation. It is read if Whole is set.
	LastEnd ledger.Instant
}

// Totals show whether a reader has the hosts and the live allocations of a state.
type Totals struct {
	Epoch uint64 // of the state
	Live  int    // how many live allocations there are
	IDs   int64  // the sum of their ids, see SumOfIDs
	Hosts int    // how many there are
}

// Follower is the part of a Store for coordinators that stand by. Its methods read one state of the
// store, without the request ids of what has ended. ErrNotFollowed: nobody can follow this store.
type Follower interface {
	// Follow reads what has changed since a mark. With the zero mark, or if not all that has
	// changed is recorded, it reads everything.
	Follow(ctx context.Context, since Mark) (Followed, error)

	// CatchUp reads what has changed since a mark, and all that a ledger is rebuilt from besides.
	// ErrGap: not all that has changed is recorded.
	CatchUp(ctx context.Context, since Mark) (Followed, error)

	// Totals reads the totals of the present state. That takes as long as there are live
	// allocations: 0.1 s with 200,000.
	Totals(ctx context.Context) (Totals, error)
}

// ErrGap is CatchUp's error if the store's records of changes do not lead from the mark to the
// present state.
var ErrGap = errors.New("store: its records of changes do not reach back to what was read before")

// IDModulus makes sums of ids fit: a store adds up the remainders.
const IDModulus = 1_000_000_007

// SumOfIDs is what an id adds to Totals.IDs.
func SumOfIDs(id ledger.ID) int64 { return Signed(uint64(id)) % IDModulus }

// ChangeTable has a record of each of the latest commits: which rows it has changed. It is how a
// coordinator that stands by finds them.
const ChangeTable = "change"

const (
	// MostRecorded is how many keys a record of a commit has at most. That of a commit that changes
	// more rows has none, and says so.
	MostRecorded = 4096
	// RecordsKept is how many records there are at least, once there were as many commits. The
	// leader removes older ones: when it begins, and from then on in steps.
	RecordsKept = 8192
	// RecordSteps is in how many steps as many records as RecordsKept are removed.
	RecordSteps = 8
)

// ChangedKeys are the keys of the rows that a commit has changed.
type ChangedKeys struct {
	Allocations []ledger.ID
	Hosts       []string
	Rest        bool // rules or providers, too
}

// Changed appends the record of the rows of a batch. It returns nil if they are too many.
func (r *Rows) Changed(to []byte) []byte {
	if len(r.Allocations)+len(r.Hosts)+len(r.HostsGone) > MostRecorded {
		return nil
	}
	rest := byte(0)
	if r.changesRest() {
		rest = 1
	}
	to = binary.AppendUvarint(append(to, rest), uint64(len(r.Allocations)))
	for i := range r.Allocations {
		to = binary.LittleEndian.AppendUint64(to, Unsigned(r.Allocations[i].ID))
	}
	for i := range r.Hosts {
		to = appendText(to, r.Hosts[i].Key)
	}
	for _, id := range r.HostsGone {
		to = appendText(to, id)
	}
	return to
}

func appendText(to []byte, text string) []byte {
	return append(binary.AppendUvarint(to, uint64(len(text))), text...)
}

func (r *Rows) changesRest() bool {
	return len(r.Quotas)+len(r.QuotasGone)+len(r.Providers)+len(r.ProvidersGone) > 0
}

// ChangesRows reports whether the batch changes any row but refusals.
func (r *Rows) ChangesRows() bool {
	return len(r.Allocations)+len(r.Hosts)+len(r.HostsGone) > 0 || r.changesRest()
}

// errRecord is of a record of changes that cannot be read.
var errRecord = errors.New("store: a record of changes cannot be read")

// Add adds what a record says to the keys.
func (k *ChangedKeys) Add(record []byte) error {
	if len(record) == 0 {
		return errRecord
	}
	k.Rest = k.Rest || record[0] != 0
	n, size := binary.Uvarint(record[1:])
	if size <= 0 {
		return errRecord
	}
	record = record[1+size:]
	if n > uint64(len(record))/8 {
		return errRecord
	}
	for range n {
		k.Allocations = append(k.Allocations, ledger.ID(binary.LittleEndian.Uint64(record)))
		record = record[8:]
	}
	for len(record) > 0 {
		n, size := binary.Uvarint(record)
		if size <= 0 || n > uint64(len(record)-size) { //nolint:gosec // size is at most the record's
			return errRecord
		}
		k.Hosts = append(k.Hosts, string(record[size:size+int(n)])) //nolint:gosec // it is within the record
		record = record[size+int(n):]                               //nolint:gosec // as above
	}
	return nil
}
