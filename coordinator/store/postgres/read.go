package postgres

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/store"
)

const (
	getSQL = `SELECT id, forget, payload FROM allocation WHERE id = $1`
	// The first two conditions and the last are those of the index. There are few rows, so there
	// is no LIMIT: with one the planner might scan the table by id.
	getByRequestSQL = `SELECT id, forget, payload FROM allocation WHERE substr(request_id, 1, 128) = substr($1::text, 1, 128)
 AND substr(caller, 1, 128) = substr($2::text, 1, 128) AND request_id = $1 AND caller = $2 AND forget = 0 AND request_id <> ''
 ORDER BY id DESC`
)

// Get implements store.Store.
func (s *Store) Get(ctx context.Context, id ledger.ID) (ledger.Allocation, error) {
	return s.get(ctx, getSQL, store.Signed(uint64(id)))
}

// Launch implements store.Store.
func (s *Store) Launch(ctx context.Context, id ledger.ID) (spec []byte, err error) {
	err = s.read(ctx, "reading a launch", func(conn *pgx.Conn) error {
		err := conn.QueryRow(ctx, launchSQL, store.Signed(uint64(id))).Scan(&spec)
		if errors.Is(err, pgx.ErrNoRows) {
			return store.ErrNotFound
		}
		return err //nolint:wrapcheck // read does
	})
	return spec, err
}

const launchSQL = `SELECT payload FROM launch WHERE id = $1`

// GetByRequest implements store.Store.
func (s *Store) GetByRequest(ctx context.Context, caller, requestID string) (ledger.Allocation, error) {
	return s.get(ctx, getByRequestSQL, escape(requestID), escape(caller))
}

func (s *Store) get(ctx context.Context, query string, args ...any) (a ledger.Allocation, err error) {
	err = s.read(ctx, "reading an allocation", func(conn *pgx.Conn) error {
		var id, forget int64
		var payload []byte
		err := conn.QueryRow(ctx, query, args...).Scan(&id, &forget, &payload)
		if errors.Is(err, pgx.ErrNoRows) {
			return store.ErrNotFound
		}
		if err != nil {
			return named(err, id)
		}
		a, err = store.DecodeAllocation(ledger.ID(store.Unsigned(id)), forget != 0, payload)
		return err
	})
	return a, err
}

// endsSQL counts rows with store.CountsOnHost on their host. It needs only the length of the
// payload, so it does not fetch large payloads from their own storage. It reads the payload if the
// caller may be a subordinate user id: then the payload names the charged user.
const endsSQL = `SELECT id, ended, CASE WHEN state < 256 THEN caller ELSE '@' || host_id END,
 octet_length(payload) + 2 * (octet_length(caller) + octet_length(request_id)) + octet_length(host_id),
 CASE WHEN state < 256 AND caller ~ '^(local:)?(uid:)?[0-9]' THEN payload END FROM allocation
 WHERE ended > 0 AND (ended, id) > ($1, $2) ORDER BY ended, id LIMIT $3`

// Ends implements store.Store.
func (s *Store) Ends(ctx context.Context, after store.Position, limit int) (list []store.End, err error) {
	err = s.read(ctx, "reading the ends of the history", func(conn *pgx.Conn) error {
		list = nil
		found, err := conn.Query(ctx, endsSQL, int64(after.Ended), store.Signed(uint64(after.ID)), limit)
		if err != nil {
			return err //nolint:wrapcheck // read does
		}
		defer found.Close()
		for found.Next() {
			var id, ended int64
			var e store.End
			var payload []byte
			if err := found.Scan(&id, &ended, &e.Caller, &e.Bytes, &payload); err != nil {
				return named(err, id)
			}
			e.Caller = unescape(e.Caller)
			e.Position = store.Position{Ended: ledger.Instant(ended), ID: ledger.ID(store.Unsigned(id))}
			e.Bytes += store.RowOverhead
			e.Charge(payload)
			list = append(list, e)
		}
		return found.Err() //nolint:wrapcheck // read does
	})
	return list, err
}
