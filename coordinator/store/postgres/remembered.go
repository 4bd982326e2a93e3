package postgres

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/store"
)

const (
	rememberedSQL = `SELECT id, caller, request_id, request_hash, ended FROM allocation
 WHERE (ended, id) < ($1, $2) AND ended >= $3 AND forget = 0 AND request_id <> '' ORDER BY ended DESC, id DESC LIMIT $4`
	// As getByRequestSQL.
	rememberedOfSQL = `SELECT id, caller, request_id, request_hash, ended FROM allocation
 WHERE substr(request_id, 1, 128) = substr($1::text, 1, 128) AND substr(caller, 1, 128) = substr($2::text, 1, 128)
 AND request_id = $1 AND caller = $2 AND forget = 0 AND request_id <> '' ORDER BY id DESC`
)

// querier is a connection or a transaction.
type querier interface {
	Query(ctx context.Context, query string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, query string, args ...any) pgx.Row
}

// rememberedRow has the columns of an ended allocation that make up its remembered request id.
type rememberedRow struct {
	id, ended       int64
	caller, request pgtype.Text
	hash            pgtype.Int8
}

// broken describes unreadable columns; nil if there are none.
func (r *rememberedRow) broken() *store.Broken {
	if r.caller.Valid && r.hash.Valid && r.ended >= 0 {
		return nil
	}
	return &store.Broken{
		ID: ledger.ID(store.Unsigned(r.id)), Ended: r.ended > 0, Cause: errors.New("ended is before 1970, or caller or request_hash holds NULL"),
	}
}

func (r *rememberedRow) value() ledger.Remembered {
	return ledger.Remembered{
		Caller: unescape(r.caller.String), RequestID: unescape(r.request.String), RequestHash: store.Unsigned(r.hash.Int64),
		ID: ledger.ID(store.Unsigned(r.id)), Ended: ledger.Instant(r.ended),
	}
}

// payloads returns a function that reads the payload of a row.
func payloads(ctx context.Context, q querier) func(ledger.ID) (store.LiveRow, error) {
	return func(id ledger.ID) (row store.LiveRow, err error) {
		forget := pgtype.Int8{}
		err = q.QueryRow(ctx, getSQL, store.Signed(uint64(id))).Scan(&row.ID, &forget, &row.Payload)
		if row.Forget = forget.Int64; !forget.Valid {
			row.Forget = 1
		}
		return row, err //nolint:wrapcheck // read does
	}
}

// Remembered implements store.Store.
func (s *Store) Remembered(
	ctx context.Context, before store.Position, since ledger.Instant, limit int,
) (page []ledger.Remembered, next store.Position, err error) {
	err = s.read(ctx, "reading the request ids of ended allocations", func(conn *pgx.Conn) error {
		var err error
		page, next, err = s.listRemembered(ctx, conn, before, max(since, 1), limit)
		return err
	})
	if err != nil {
		return nil, store.Position{}, err
	}
	return page, next, nil
}

func (s *Store) listRemembered(
	ctx context.Context, conn *pgx.Conn, before store.Position, since ledger.Instant, limit int,
) (page []ledger.Remembered, next store.Position, err error) {
	var damaged []store.Broken
	if before == (store.Position{}) {
		if damaged, err = loadStrays(ctx, conn); err != nil {
			return nil, next, err
		}
		before = store.Position{Ended: math.MaxInt64, ID: math.MaxInt64}
	}
	found, err := conn.Query(ctx, rememberedSQL, int64(before.Ended), store.Signed(uint64(before.ID)), int64(since), limit)
	if err != nil {
		return nil, next, fmt.Errorf("request ids: %w", err)
	}
	defer found.Close()
	n := 0
	for ; found.Next(); n++ {
		var row rememberedRow
		if err := found.Scan(&row.id, &row.caller, &row.request, &row.hash, &row.ended); err != nil {
			return nil, next, fmt.Errorf("request ids: %w", err)
		}
		next = store.Position{Ended: ledger.Instant(row.ended), ID: ledger.ID(store.Unsigned(row.id))}
		if wrong := row.broken(); wrong != nil {
			damaged = append(damaged, *wrong)
		} else {
			page = append(page, row.value())
		}
	}
	if err := found.Err(); err != nil {
		return nil, next, err //nolint:wrapcheck // read does
	}
	if n < limit {
		next = store.Position{}
	}
	recalled, err := store.Recall(damaged, since, payloads(ctx, conn), s.server.log)
	return append(page, recalled...), next, err //nolint:wrapcheck // names the row
}

// RememberedOf implements store.Store.
func (s *Store) RememberedOf(ctx context.Context, caller, requestID string) (r ledger.Remembered, err error) {
	err = s.read(ctx, "reading a request id", func(conn *pgx.Conn) error {
		var row rememberedRow
		err := conn.QueryRow(ctx, rememberedOfSQL, escape(requestID), escape(caller)).Scan(&row.id, &row.caller, &row.request, &row.hash, &row.ended)
		if errors.Is(err, pgx.ErrNoRows) {
			return store.ErrNotFound
		}
		if err != nil {
			return named(err, row.id)
		}
		r, err = store.EndedOf(row.value(), row.broken(), payloads(ctx, conn), s.server.log)
		return err //nolint:wrapcheck // names the row
	})
	return r, err
}
