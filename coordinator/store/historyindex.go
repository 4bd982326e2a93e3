package store

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"math"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/label"
	storev1 "github.com/bursar/bursar/proto/bursar/store/v1"
)

// HistoryIndexTable finds ended allocations by their host and by the labels with keys of
// IndexedKeys. Each row is an entry: a term, and the position in the history of an allocation with
// that term. A commit writes no entries: Store.IndexHistory does, later. The row of meta has the
// position up to which the index is filled (the columns indexed_end and indexed_id). All
// allocations that ended up to there have their entries. There may be entries without an
// allocation: it was adopted again, or set aside. A reader of an entry looks for the allocation
// that ended at that time.
const HistoryIndexTable = "history_index"

// IndexedKeys are the keys of the labels in the index: those with a meaning of their own. Users
// choose other keys, in any number. A migration that follows a change of this list must set meta's
// indexed_end to 0, so that the index is filled again.
func IndexedKeys() []string { return slices.Clone(indexedKeys[:]) }

var indexedKeys = [MostTerms - 1]string{label.User, label.Creator, label.EngineType, label.Tenant, label.Cluster, label.Queue}

const (
	// MostTerms bounds the terms of an allocation: its host and a label of each key.
	MostTerms = 1 + 6
	// entryBytes is the approximate size of an entry in the store.
	entryBytes = 30
)

// Term identifies a key with its value. It is the beginning of their SHA-256, as a signed number.
// So entries have one size, whatever the value, and a caller cannot choose a value that is mistaken
// for another. The empty key is the host.
func Term(key, value string) int64 {
	const roomForMost = 320 // both have bounds, see package label
	text := append(make([]byte, 0, roomForMost), key...)
	text = append(text, 0) // no key has it
	sum := sha256.Sum256(append(text, value...))
	return Signed(binary.BigEndian.Uint64(sum[:]))
}

// RowTerms returns the terms of an allocation's payload. An invalid payload has none. It ignores
// additions of a later version.
func RowTerms(payload []byte) []int64 {
	var record storev1.AllocationRecord
	if proto.Unmarshal(payload, &record) != nil {
		return nil
	}
	return terms(record.GetAllocation().GetHostId(), func(key string) (string, bool) {
		value, found := record.GetAllocation().GetLabels()[key]
		return value, found
	})
}

// Terms returns the terms that each match of the query has. There are none if the index cannot
// help.
func (q *HistoryQuery) Terms() []int64 {
	return terms(q.HostID, func(key string) (string, bool) {
		value, found := q.Labels.Get(key)
		return value, found && value != label.Any
	})
}

func terms(hostID string, get func(key string) (value string, found bool)) []int64 {
	list := make([]int64, 0, MostTerms)
	if hostID != "" {
		list = append(list, Term("", hostID))
	}
	for _, key := range indexedKeys {
		if value, found := get(key); found {
			list = append(list, Term(key, value))
		}
	}
	return list
}

// IndexEntry is an entry of the index of the history.
type IndexEntry struct {
	Term int64
	Position
}

// Compare orders entries as the index does.
func (e IndexEntry) Compare(f IndexEntry) int {
	return cmp.Or(cmp.Compare(e.Term, f.Term), e.Position.Compare(f.Position))
}

// IndexEntries appends the entries of an ended allocation.
func IndexEntries(list []IndexEntry, at Position, payload []byte) []IndexEntry {
	for _, term := range RowTerms(payload) {
		list = append(list, IndexEntry{term, at})
	}
	return list
}

// BeforeAll is the last position before all allocations that ended at a time.
func BeforeAll(ended ledger.Instant) Position { return Position{Ended: ended - 1, ID: math.MaxInt64} }

// Next is the first position that is later.
func (p Position) Next() Position {
	if p.ID == math.MaxInt64 { // the largest in a table; this is the smallest:
		return Position{p.Ended + 1, 1 << 63}
	}
	return Position{p.Ended, p.ID + 1}
}

// IndexBegin is the position before all entries.
func IndexBegin() IndexEntry { return IndexEntry{Term: math.MinInt64} }

// AfterTerm is the position behind all entries of a term.
func AfterTerm(term int64) IndexEntry {
	return IndexEntry{term, Position{Ended: math.MaxInt64, ID: math.MaxInt64}}
}
