package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/store"
)

const (
	// The end as a whole number is the position of a row whose end is a number with a fraction.
	rememberedSQL = `SELECT id, caller, request_id, request_hash, ended, CAST(ended AS INTEGER) FROM allocation
 WHERE (ended, id) < (?, ?) AND ended >= ? AND forget = 0 AND request_id <> '' ORDER BY ended DESC, id DESC LIMIT ?`
	// The last condition is that of the index.
	rememberedOfSQL = `SELECT id, caller, request_id, request_hash, ended FROM allocation
 WHERE request_id = ? AND caller = ? AND forget = 0 AND request_id <> '' ORDER BY id DESC LIMIT 1`
)

// rememberedRow has the columns of an ended allocation that make up its remembered request id.
type rememberedRow struct {
	id              int64
	caller, request column[string]
	hash, ended     column[int64]
}

// broken names an unreadable column; nil if there is none.
func (r *rememberedRow) broken() *store.Broken {
	wrong := cmp.Or(broken(r.id, "ended", r.ended.wrong), broken(r.id, "caller", r.caller.wrong),
		broken(r.id, "request_id", r.request.wrong), broken(r.id, "request_hash", r.hash.wrong))
	if wrong != nil {
		wrong.Ended = r.ended.wrong == nil && r.ended.value > 0
	}
	return wrong
}

func (r *rememberedRow) value() ledger.Remembered {
	return ledger.Remembered{
		Caller: r.caller.value, RequestID: r.request.value, RequestHash: store.Unsigned(r.hash.value),
		ID: ledger.ID(store.Unsigned(r.id)), Ended: ledger.Instant(r.ended.value),
	}
}

// payloads returns a function that reads the payload of a row.
func payloads(ctx context.Context, q querier) func(ledger.ID) (store.LiveRow, error) {
	return func(id ledger.ID) (row store.LiveRow, err error) {
		var forget column[int64]
		err = q.QueryRowContext(ctx, getSQL, store.Signed(uint64(id))).Scan(&row.ID, &forget, &row.Payload)
		if row.Forget = forget.value; forget.wrong != nil {
			row.Forget = 1
		}
		return row, err
	}
}

// Remembered implements store.Store.
func (s *Store) Remembered(
	ctx context.Context, before store.Position, since ledger.Instant, limit int,
) (page []ledger.Remembered, next store.Position, err error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed {
		return nil, next, store.ErrClosed
	}
	page, next, err = s.listRemembered(ctx, before, max(since, 1), limit)
	if err != nil {
		return nil, store.Position{}, fmt.Errorf("store: reading the request ids of ended allocations: %w", classify(err))
	}
	return page, next, nil
}

func (s *Store) listRemembered(
	ctx context.Context, before store.Position, since ledger.Instant, limit int,
) (page []ledger.Remembered, next store.Position, err error) {
	var damaged []store.Broken
	if before == (store.Position{}) {
		if damaged, err = loadStrays(ctx, s.reading); err != nil {
			return nil, next, err
		}
		before = store.Position{Ended: math.MaxInt64, ID: math.MaxInt64}
	}
	rows, err := s.reads.remembered.QueryContext(ctx, int64(before.Ended), store.Signed(uint64(before.ID)), int64(since), limit)
	if err != nil {
		return nil, next, err
	}
	defer rows.Close()
	var row rememberedRow
	n := 0
	for ; rows.Next(); n++ {
		var place int64
		if err := rows.Scan(&row.id, &row.caller, &row.request, &row.hash, &row.ended, &place); err != nil {
			return nil, next, err
		}
		next = store.Position{Ended: ledger.Instant(place), ID: ledger.ID(store.Unsigned(row.id))}
		if row.ended.wrong != nil {
			next.ID = math.MaxInt64 // behind all allocations with this end
		}
		if wrong := row.broken(); wrong != nil {
			damaged = append(damaged, *wrong)
		} else {
			page = append(page, row.value())
		}
	}
	if err := rows.Err(); err != nil {
		return nil, next, err
	}
	if n < limit {
		next = store.Position{}
	}
	recalled, err := store.Recall(damaged, since, payloads(ctx, s.reading), s.log)
	return append(page, recalled...), next, err
}

// RememberedOf implements store.Store.
func (s *Store) RememberedOf(ctx context.Context, caller, requestID string) (ledger.Remembered, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed {
		return ledger.Remembered{}, store.ErrClosed
	}
	var row rememberedRow
	err := s.reads.rememberedOf.QueryRowContext(ctx, requestID, caller).Scan(&row.id, &row.caller, &row.request, &row.hash, &row.ended)
	if errors.Is(err, sql.ErrNoRows) {
		return ledger.Remembered{}, store.ErrNotFound
	}
	var found ledger.Remembered
	if err == nil {
		if row.ended.wrong == nil && row.ended.value < 0 {
			row.ended.wrong = fmt.Errorf("%d: want no time before 1970", row.ended.value)
		}
		found, err = store.EndedOf(row.value(), row.broken(), payloads(ctx, s.reading), s.log)
	}
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		err = fmt.Errorf("store: reading a request id: %w", classify(err))
	}
	return found, err
}
