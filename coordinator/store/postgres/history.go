package postgres

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/store"
)

// historySQL reads rows between two places in the history.
const historySQL = `SELECT id, ended, state, host_id, forget, payload FROM allocation WHERE ended > 0 AND (ended, id) < ($1, $2) AND (ended, id) > ($3, $4)
 ORDER BY ended DESC, id DESC LIMIT $5`

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
	err = s.read(ctx, "reading the history", func(conn *pgx.Conn) error {
		search := historySearch{query: &query, conn: conn, at: after}
		err := search.run(ctx)
		page, next = search.page, search.next
		return err
	})
	if err != nil {
		return nil, "", err
	}
	return page, next, nil
}

// historySearch collects a page.
type historySearch struct {
	query *store.HistoryQuery
	conn  *pgx.Conn
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
	indexed, err := scanIndexed(h.conn.QueryRow(ctx, indexedSQL))
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
	return h.inSteps(func(limit int) (pgx.Rows, error) {
		return h.conn.Query(ctx, historySQL, int64(h.at.Ended), store.Signed(uint64(h.at.ID)), int64(until.Ended), store.Signed(uint64(until.ID)), limit)
	})
}

// lookUp reads what has all terms, by the entries of the first.
func (h *historySearch) lookUp(ctx context.Context, terms []int64) error {
	return h.inSteps(func(limit int) (pgx.Rows, error) {
		return h.conn.Query(ctx, foundSQL, terms[1:], terms[0], int64(h.at.Ended), store.Signed(uint64(h.at.ID)), limit)
	})
}

// inSteps reads as many rows as make a page, and more if few of them match: the server sends all
// rows that it is asked for.
func (h *historySearch) inSteps(query func(limit int) (pgx.Rows, error)) error {
	for limit := h.query.Size() + 1; ; limit *= 4 {
		// One more than there may be: whether there is a next page.
		limit = min(limit, scanned+1-h.looked)
		found, err := query(limit)
		if err != nil {
			return err
		}
		n, err := h.collect(found)
		if err != nil || n < limit || h.next != "" {
			return err
		}
	}
}

// collect puts rows into the page until it is full, and returns how many it has read.
func (h *historySearch) collect(found pgx.Rows) (n int, err error) {
	defer found.Close()
	for ; found.Next(); n++ {
		if h.looked == scanned || len(h.page) == h.query.Size() {
			h.next = h.at.Token()
			return n, nil
		}
		var id, ended int64
		var state, forget pgtype.Int8
		var hostID pgtype.Text
		var payload pgtype.DriverBytes // valid until the next row
		if err := found.Scan(&id, &ended, &state, &hostID, &forget, &payload); err != nil {
			return n, named(err, id)
		}
		h.at = store.Position{Ended: ledger.Instant(ended), ID: ledger.ID(store.Unsigned(id))}
		h.looked++
		if payload == nil { // an entry: it has not all terms, or it is not there any more
			continue
		}
		// the payload says what is true
		if !h.query.MatchesRow(h.at.ID, ledger.State(state.Int64&0xff), unescape(hostID.String)) {
			continue
		}
		a, err := store.DecodeAllocation(h.at.ID, forget.Int64 != 0, payload)
		if err != nil {
			return n, err
		}
		if h.query.Matches(&a) {
			h.page = append(h.page, a)
		}
	}
	return n, found.Err() //nolint:wrapcheck // read does
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
		err := h.conn.QueryRow(ctx, rareSQL, term, int64(h.at.Ended), store.Signed(uint64(h.at.ID)), rareAfter).Scan(&ended)
		if err != nil && !errors.Is(err, pgx.ErrNoRows) {
			return nil, err //nolint:wrapcheck // read does
		}
		ends[term] = ended
	}
	slices.SortStableFunc(terms, func(a, b int64) int { return cmp.Compare(ends[a], ends[b]) })
	return terms, nil
}
