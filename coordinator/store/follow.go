package store

import (
	"context"
	"encoding/binary"
	"errors"

	"github.com/bursar/bursar/coordinator/ledger"
)

// ErrNotFollowed is the error of a store that only one process can open: it has no standby.
var ErrNotFollowed = errors.New("store: it cannot be followed: one process has it alone")

// Mark names a state of a store: the one after a commit at a sequence. A store that is restored to
// an earlier state gives out sequences again, but not in the same leadership. The zero value names
// no state.
type Mark struct {
	Sequence   uint64
	Leadership string // of the commit
}

// Followed is one state of a store, for a reader that has the rows of a mark.
type Followed struct {
	Meta Meta
	// Mark names this state. It is zero if no mark does, because a version that keeps no record of
	// changes has committed last: then no rows are read.
	Mark Mark
	// Whole says that Rows has all rows, because not all changes since the mark are recorded.
	// Otherwise Rows has the changed hosts and live allocations, and Ended and HostsRemoved name
	// allocations that are no longer live and hosts that are gone.
	Whole        bool
	Rows         ledger.Snapshot
	Ended        []ledger.ID
	HostsRemoved []string
	// Rest says that Rows has all rules, providers and refusals. Otherwise no rule and no provider
	// has changed.
	Rest bool
	// LastEnd is the latest end of any allocation. It is read if Whole is set.
	LastEnd ledger.Instant
}

// Totals let a reader check whether it has the hosts and the live allocations of a state.
type Totals struct {
	Epoch uint64 // of the state
	Live  int    // number of live allocations
	IDs   int64  // the sum of their ids, see SumOfIDs
	Hosts int    // number of hosts
}

// Follower is the part of a Store for standbys. Its methods read one state of the store, without
// the request ids of ended allocations. ErrNotFollowed: this store cannot be followed.
type Follower interface {
	// Follow reads the changes since a mark. With the zero mark, or if not all changes are
	// recorded, it reads all rows.
	Follow(ctx context.Context, since Mark) (Followed, error)

	// CatchUp reads the changes since a mark, and the other rows from which a ledger is rebuilt.
	// ErrGap: not all changes are recorded.
	CatchUp(ctx context.Context, since Mark) (Followed, error)

	// Totals reads the totals of the present state. Its time depends on the number of live
	// allocations: 0.1 s with 200,000.
	Totals(ctx context.Context) (Totals, error)
}

// ErrGap is CatchUp's error if the store's records of changes do not lead from the mark to the
// present state.
var ErrGap = errors.New("store: its records of changes do not reach back to what was read before")

// IDModulus keeps sums of ids small: a store adds up the remainders.
const IDModulus = 1_000_000_007

// SumOfIDs is the part of an id in Totals.IDs.
func SumOfIDs(id ledger.ID) int64 { return Signed(uint64(id)) % IDModulus }

// ChangeTable has a record of each of the latest commits: the keys of its changed rows. A standby
// finds them by it.
const ChangeTable = "change"

const (
	// MostRecorded bounds the keys in the record of a commit. A commit that changes more rows has a
	// record that says so and has no keys.
	MostRecorded = 4096
	// RecordsKept is the least number of records, once there were as many commits. The leader
	// removes older ones: when it begins, and from then on in steps.
	RecordsKept = 8192
	// RecordSteps is the number of steps in which RecordsKept records are removed.
	RecordSteps = 8
)

// ChangedKeys are the keys of the rows that a commit has changed.
type ChangedKeys struct {
	Allocations []ledger.ID
	Hosts       []string
	Rest        bool // rules or providers, too
}

// Changed appends the record of a batch. It returns nil if the batch has too many rows.
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

// errRecord says that a record of changes cannot be read.
var errRecord = errors.New("store: a record of changes cannot be read")

// Add adds the keys of a record.
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
