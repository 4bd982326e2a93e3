package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/store"
)

// History implements store.Store.
func (s *Store) History(ctx context.Context, query store.HistoryQuery) (page []ledger.Allocation, next string, err error) {
	search, err := store.NewHistorySearch(&query)
	if err != nil {
		return nil, "", err //nolint:wrapcheck // says it
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed {
		return nil, "", store.ErrClosed
	}
	if err := search.Run(&historyReads{search, ctx, &s.reads}); err != nil {
		return nil, "", fmt.Errorf("store: reading the history: %w", classify(err))
	}
	return search.Page, search.Next, nil
}

// historyReads implements the reads of a search.
type historyReads struct {
	*store.HistorySearch

	ctx   context.Context //nolint:containedctx // of the one call
	reads *reads
}

var _ store.HistoryReads = (*historyReads)(nil)

// Indexed implements store.HistoryReads.
func (h *historyReads) Indexed() (store.Position, error) {
	return scanIndexed(h.reads.indexed.QueryRowContext(h.ctx))
}

// Scan implements store.HistoryReads.
func (h *historyReads) Scan(until store.Position) error {
	rows, err := h.reads.history.QueryContext(h.ctx, int64(h.At.Ended), store.Signed(uint64(h.At.ID)), h.Limit())
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
		if h.Full() {
			return nil
		}
		wrong := cmp.Or(broken(id, "ended", ended.wrong), broken(id, "forget", forget.wrong))
		if wrong != nil {
			return wrong.Err()
		}
		if err := h.Look(at, h.mayMatch(at.ID, state, hostID), forget.value != 0, payload); err != nil {
			return err //nolint:wrapcheck // names the row
		}
	}
	return rows.Err()
}

// mayMatch reports whether the readable columns of a row match.
func (h *historyReads) mayMatch(id ledger.ID, state column[int64], hostID column[string]) bool {
	return state.wrong != nil || hostID.wrong != nil || h.Query.MatchesRow(id, ledger.State(state.value&0xff), hostID.value)
}

// RareEnd implements store.HistoryReads.
func (h *historyReads) RareEnd(term int64) (ended int64, err error) {
	err = h.reads.rare.QueryRowContext(h.ctx, term, int64(h.At.Ended), store.Signed(uint64(h.At.ID)), store.RareAfter).Scan(&ended)
	if errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	return ended, err
}

// LookUp implements store.HistoryReads.
func (h *historyReads) LookUp(terms []int64) error {
	var args []any
	for _, other := range terms[1:] {
		args = append(args, other)
	}
	args = append(args, terms[0], int64(h.At.Ended), store.Signed(uint64(h.At.ID)), h.Limit())
	rows, err := h.reads.found[len(terms)-1].QueryContext(h.ctx, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if h.Full() {
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
		if payload == nil {
			h.Pass(at)
			continue
		}
		if wrong := broken(id, "forget", forget.wrong); wrong != nil {
			return wrong.Err()
		}
		if err := h.Look(at, h.mayMatch(at.ID, state, hostID), forget.value != 0, payload); err != nil {
			return err //nolint:wrapcheck // names the row
		}
	}
	return rows.Err()
}
