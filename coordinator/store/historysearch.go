package store

import (
	"cmp"
	"math"
	"slices"

	"github.com/bursar/bursar/coordinator/ledger"
)

const (
	// MostLooked is how many rows or entries of the index a call of History reads at most. Decoding
	// all of them takes some 30 ms.
	MostLooked = 5000
	// RareAfter is how many entries of a term are passed over to see how rare it is: the further in
	// the past the next one ended, the rarer.
	RareAfter = 200
)

// HistorySearch collects a page of the history. It belongs to one call of History, whose store
// reads for it.
type HistorySearch struct {
	Query *HistoryQuery
	At    Position // behind which it goes on
	Page  []ledger.Allocation
	Next  string // the token of the next page, once the page has ended before the history

	looked int // rows and entries
}

// HistoryReads are what a search reads. Both methods that read rows go on behind At, tell Pass or
// Look of each, and end when the page is Full.
type HistoryReads interface {
	// Indexed reads up to where the index of the history is filled.
	Indexed() (Position, error)
	// Scan reads rows up to a place in the history.
	Scan(until Position) error
	// LookUp reads what has all terms, by the entries of the first.
	LookUp(terms []int64) error
	// RareEnd reads the end of the entry of a term that is RareAfter entries behind At; 0: there
	// are not so many.
	RareEnd(term int64) (int64, error)
}

// NewHistorySearch begins where the query says. The error is ErrBadToken.
func NewHistorySearch(query *HistoryQuery) (*HistorySearch, error) {
	h := &HistorySearch{Query: query, At: Position{Ended: math.MaxInt64}}
	var err error
	if query.PageToken != "" {
		h.At, err = ParseToken(query.PageToken)
	}
	return h, err
}

// Run searches what is not in the index of the history yet row by row, and the rest by the index if
// it can help.
func (h *HistorySearch) Run(reads HistoryReads) error {
	terms := h.Query.Terms()
	if len(terms) == 0 {
		return reads.Scan(Position{})
	}
	// Before the rows: it may rise meanwhile.
	indexed, err := reads.Indexed()
	if err != nil {
		return err //nolint:wrapcheck // the store's, as all below
	}
	if h.At.Compare(indexed) > 0 {
		if err := reads.Scan(indexed); err != nil || h.Next != "" {
			return err
		}
		h.At = indexed.Next()
	}
	if len(terms) > 1 {
		ends := make(map[int64]int64, len(terms))
		for _, term := range terms {
			if ends[term], err = reads.RareEnd(term); err != nil {
				return err
			}
		}
		slices.SortStableFunc(terms, func(a, b int64) int { return cmp.Compare(ends[a], ends[b]) })
	}
	return reads.LookUp(terms)
}

// Limit is how many rows may still be read: one more than may be looked at, which says whether
// there is a next page.
func (h *HistorySearch) Limit() int { return MostLooked + 1 - h.looked }

// Full reports whether the page has ended before a row that there is, and where the next begins.
func (h *HistorySearch) Full() bool {
	if h.looked < MostLooked && len(h.Page) < h.Query.Size() {
		return false
	}
	h.Next = h.At.Token()
	return true
}

// Pass goes on behind an entry of the index that has not all terms, or whose allocation is not
// there any more.
func (h *HistorySearch) Pass(at Position) {
	h.At = at
	h.looked++
}

// Look puts a row into the page if it matches. may says that it does as far as its columns can be
// read, which spares the decoding of most others; the payload says what is true.
func (h *HistorySearch) Look(at Position, may, forget bool, payload []byte) error {
	h.Pass(at)
	if !may {
		return nil
	}
	a, err := DecodeAllocation(at.ID, forget, payload)
	if err != nil {
		return err
	}
	if h.Query.Matches(&a) {
		h.Page = append(h.Page, a)
	}
	return nil
}
