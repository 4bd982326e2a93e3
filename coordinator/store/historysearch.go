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
	// RareAfter is how many entries of a term are skipped to estimate its rarity: the longer ago
	// the next one ended, the rarer the term.
	RareAfter = 200
)

// HistorySearch collects a page of the history. It belongs to one call of History, whose store
// reads for it.
type HistorySearch struct {
	Query *HistoryQuery
	At    Position // the search continues behind it
	Page  []ledger.Allocation
	Next  string // the token of the next page, if there is one

	looked int // rows and entries
}

// HistoryReads are the reads of a search. Both methods that read rows begin behind At, call Pass or
// Look for each row, and end when the page is Full.
type HistoryReads interface {
	// Indexed reads the position up to which the index of the history is filled.
	Indexed() (Position, error)
	// Scan reads rows up to a position in the history.
	Scan(until Position) error
	// LookUp reads the rows that have all terms, by the entries of the first.
	LookUp(terms []int64) error
	// RareEnd reads the end of the entry of a term that is RareAfter entries behind At; 0 if there
	// are not so many.
	RareEnd(term int64) (int64, error)
}

// NewHistorySearch begins at the position of the query's token. The error is ErrBadToken.
func NewHistorySearch(query *HistoryQuery) (*HistorySearch, error) {
	h := &HistorySearch{Query: query, At: Position{Ended: math.MaxInt64}}
	var err error
	if query.PageToken != "" {
		h.At, err = ParseToken(query.PageToken)
	}
	return h, err
}

// Run searches the rows that are not indexed yet one by one, and the rest by the index if it can
// help.
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

// Limit returns how many rows may still be read: one more than may be used, to find out whether
// there is a next page.
func (h *HistorySearch) Limit() int { return MostLooked + 1 - h.looked }

// Full reports whether the page ends before an existing row. If so, it sets Next.
func (h *HistorySearch) Full() bool {
	if h.looked < MostLooked && len(h.Page) < h.Query.Size() {
		return false
	}
	h.Next = h.At.Token()
	return true
}

// Pass skips an entry of the index that lacks some terms, or whose allocation is gone.
func (h *HistorySearch) Pass(at Position) {
	h.At = at
	h.looked++
}

// Look adds a row to the page if it matches. may says that its columns match, as far as they can be
// read: this saves the decoding of most other rows. The payload decides.
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
