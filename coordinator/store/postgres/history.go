package postgres

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/store"
)

// historySQL reads rows between two positions in the history.
const historySQL = `SELECT id, ended, state, host_id, forget, payload FROM allocation WHERE ended > 0 AND (ended, id) < ($1, $2) AND (ended, id) > ($3, $4)
 ORDER BY ended DESC, id DESC LIMIT $5`

// History implements store.Store.
func (s *Store) History(ctx context.Context, query store.HistoryQuery) (page []ledger.Allocation, next string, err error) {
	begin, err := store.NewHistorySearch(&query)
	if err != nil {
		return nil, "", err //nolint:wrapcheck // says it
	}
	err = s.read(ctx, "reading the history", func(conn *pgx.Conn) error {
		search := *begin
		err := search.Run(&historyReads{&search, ctx, conn})
		page, next = search.Page, search.Next
		return err //nolint:wrapcheck // read does
	})
	if err != nil {
		return nil, "", err
	}
	return page, next, nil
}

// historyReads implements the reads of a search.
type historyReads struct {
	*store.HistorySearch

	ctx  context.Context //nolint:containedctx // of the one call
	conn *pgx.Conn
}

var _ store.HistoryReads = (*historyReads)(nil)

// Indexed implements store.HistoryReads.
func (h *historyReads) Indexed() (store.Position, error) {
	return scanIndexed(h.conn.QueryRow(h.ctx, indexedSQL))
}

// Scan implements store.HistoryReads.
func (h *historyReads) Scan(until store.Position) error {
	return h.inSteps(func(limit int) (pgx.Rows, error) {
		return h.conn.Query(h.ctx, historySQL, int64(h.At.Ended), store.Signed(uint64(h.At.ID)), int64(until.Ended), store.Signed(uint64(until.ID)), limit)
	})
}

// RareEnd implements store.HistoryReads.
func (h *historyReads) RareEnd(term int64) (ended int64, err error) {
	err = h.conn.QueryRow(h.ctx, rareSQL, term, int64(h.At.Ended), store.Signed(uint64(h.At.ID)), store.RareAfter).Scan(&ended)
	if errors.Is(err, pgx.ErrNoRows) {
		err = nil
	}
	return ended, err //nolint:wrapcheck // read does
}

// LookUp implements store.HistoryReads.
func (h *historyReads) LookUp(terms []int64) error {
	return h.inSteps(func(limit int) (pgx.Rows, error) {
		return h.conn.Query(h.ctx, foundSQL, terms[1:], terms[0], int64(h.At.Ended), store.Signed(uint64(h.At.ID)), limit)
	})
}

// inSteps reads as many rows as make a page, and more if few of them match: the server sends all
// requested rows.
func (h *historyReads) inSteps(query func(limit int) (pgx.Rows, error)) error {
	for limit := h.Query.Size() + 1; ; limit *= 4 {
		limit = min(limit, h.Limit())
		found, err := query(limit)
		if err != nil {
			return err
		}
		n, err := h.collect(found)
		if err != nil || n < limit || h.Next != "" {
			return err
		}
	}
}

// collect adds rows to the page until it is full, and returns how many it has read.
func (h *historyReads) collect(found pgx.Rows) (n int, err error) {
	defer found.Close()
	for ; found.Next(); n++ {
		if h.Full() {
			return n, nil
		}
		var id, ended int64
		var state, forget pgtype.Int8
		var hostID pgtype.Text
		var payload pgtype.DriverBytes // valid until the next row
		if err := found.Scan(&id, &ended, &state, &hostID, &forget, &payload); err != nil {
			return n, named(err, id)
		}
		at := store.Position{Ended: ledger.Instant(ended), ID: ledger.ID(store.Unsigned(id))}
		if payload == nil {
			h.Pass(at)
			continue
		}
		may := h.Query.MatchesRow(at.ID, ledger.State(state.Int64&0xff), unescape(hostID.String))
		if err := h.Look(at, may, forget.Int64 != 0, payload); err != nil {
			return n, err //nolint:wrapcheck // names the row
		}
	}
	return n, found.Err() //nolint:wrapcheck // read does
}
