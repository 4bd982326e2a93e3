package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/store"
)

// scanned is how many rows or entries of the index a call of History reads at most. Decoding all
// of them takes some 30 ms.
const scanned = 5000

// History implements store.Store.
func (s *Store) History(ctx context.Context, query store.HistoryQuery) (page []ledger.Allocation, next string, err error) {
	after := store.Position{Ended: math.MaxInt64}
	if query.PageToken != "" {
		if after, err = store.ParseToken(query.PageToken); err != nil {
			return nil, "", err
		}
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed {
		return nil, "", store.ErrClosed
	}
	search := historySearch{query: &query, reads: &s.reads, at: after}
	if err := search.run(ctx); err != nil {
		return nil, "", fmt.Errorf("store: reading the history: %w", classify(err))
	}
	return search.page, search.next, nil
}

// historySearch collects a page.
type historySearch struct {
	query *store.HistoryQuery
	reads *reads
	at    store.Position // behind which it goes on

	looked int // rows and entries
	page   []ledger.Allocation
	next   string // the token of the next page, once the page has ended before the history
}

// run searches what is not in the index of the history yet row by row, and the rest by the index if
// it can help.
func (h *historySearch) run(ctx context.Context) error {
	terms := h.query.Terms()
	if len(terms) == 0 {
		return h.scan(ctx, store.Position{})
	}
	// Before the rows: it may rise meanwhile.
	indexed, err := scanIndexed(h.reads.indexed.QueryRowContext(ctx))
	if err != nil {
		return err
	}
	if h.at.Compare(indexed) > 0 {
		if err := h.scan(ctx, indexed); err != nil || h.next != "" {
			return err
		}
		h.at = indexed.Next()
	}
	if terms, err = h.rarestFirst(ctx, terms); err != nil {
		return err
	}
	return h.lookUp(ctx, terms)
}

// scan reads rows up to a place in the history.
func (h *historySearch) scan(ctx context.Context, until store.Position) error {
	rows, err := h.reads.history.QueryContext(ctx, int64(h.at.Ended), store.Signed(uint64(h.at.ID)), scanned+1-h.looked)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var id int64
		var ended, state, forget column[int64]
		var hostID column[string]
		var payload sql.RawBytes
		if err := rows.Scan(&id, &ended, &state, &hostID, &forget, &payload); err != nil {
			return err
		}
		at := store.Position{Ended: ledger.Instant(ended.value), ID: ledger.ID(store.Unsigned(id))}
		if ended.wrong == nil && at.Compare(until) <= 0 {
			return nil
		}
		if h.full() {
			return nil
		}
		wrong := cmp.Or(broken(id, "ended", ended.wrong), broken(id, "forget", forget.wrong))
		if wrong != nil {
			return wrong.Err()
		}
		if err := h.look(at, state, hostID, forget.value != 0, payload); err != nil {
			return err
		}
	}
	return rows.Err()
}

// full reports whether the page has ended before a row that there is, and where the next begins.
func (h *historySearch) full() bool {
	if h.looked < scanned && len(h.page) < h.query.Size() {
		return false
	}
	h.next = h.at.Token()
	return true
}

// look puts a row into the page if it matches.
func (h *historySearch) look(at store.Position, state column[int64], hostID column[string], forget bool, payload []byte) error {
	h.at = at
	h.looked++
	readable := state.wrong == nil && hostID.wrong == nil
	// the payload says what is true
	if readable && !h.query.MatchesRow(at.ID, ledger.State(state.value&0xff), hostID.value) {
		return nil
	}
	a, err := store.DecodeAllocation(at.ID, forget, payload)
	if err != nil {
		return err
	}
	if h.query.Matches(&a) {
		h.page = append(h.page, a)
	}
	return nil
}

// rareAfter is how many entries of a term are passed over to see how rare it is: the further in the
// past the next one ended, the rarer.
const rareAfter = 200

// rarestFirst orders terms by how rare they are from this place on, roughly.
func (h *historySearch) rarestFirst(ctx context.Context, terms []int64) ([]int64, error) {
	if len(terms) == 1 {
		return terms, nil
	}
	ends := make(map[int64]int64, len(terms))
	for _, term := range terms {
		var ended int64 // stays 0 if there are few
		err := h.reads.rare.QueryRowContext(ctx, term, int64(h.at.Ended), store.Signed(uint64(h.at.ID)), rareAfter).Scan(&ended)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return nil, err
		}
		ends[term] = ended
	}
	slices.SortStableFunc(terms, func(a, b int64) int { return cmp.Compare(ends[a], ends[b]) })
	return terms, nil
}

// lookUp reads what has all terms, by the entries of the first.
func (h *historySearch) lookUp(ctx context.Context, terms []int64) error {
	var args []any
	for _, other := range terms[1:] {
		args = append(args, other)
	}
	args = append(args, terms[0], int64(h.at.Ended), store.Signed(uint64(h.at.ID)), scanned+1-h.looked)
	rows, err := h.reads.found[len(terms)-1].QueryContext(ctx, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if h.full() {
			return nil
		}
		var id, ended int64
		var state, forget column[int64]
		var hostID column[string]
		var payload sql.RawBytes
		if err := rows.Scan(&id, &ended, &state, &hostID, &forget, &payload); err != nil {
			return err
		}
		at := store.Position{Ended: ledger.Instant(ended), ID: ledger.ID(store.Unsigned(id))}
		if payload == nil { // it has not all terms, or it is not there any more
			h.at = at
			h.looked++
			continue
		}
		if wrong := broken(id, "forget", forget.wrong); wrong != nil {
			return wrong.Err()
		}
		if err := h.look(at, state, hostID, forget.value != 0, payload); err != nil {
			return err
		}
	}
	return rows.Err()
}
