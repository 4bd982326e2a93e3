package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/store"
)

const (
	countLiveSQL      = `SELECT count(*) FROM allocation WHERE ended = 0`
	loadLiveSQL       = `SELECT id, forget, payload FROM allocation WHERE ended = 0 ORDER BY id`
	loadHostsSQL      = `SELECT id, payload FROM host`
	loadQuotasSQL     = `SELECT selector, payload FROM quota`
	loadProvidersSQL  = `SELECT name, payload FROM provider`
	loadRefusalsSQL   = `SELECT id, payload FROM refusal`
	loadRememberedSQL = `SELECT id, caller, request_id, request_hash, ended FROM allocation
 WHERE ended >= $1 AND ended > 0 AND forget = 0 AND request_id <> '' ORDER BY ended, id`
	loadStraysSQL = `SELECT id, ended FROM allocation WHERE ended < 0 ORDER BY ended, id`
)

// Load implements store.Store.
func (s *Store) Load(ctx context.Context, epoch uint64, rememberSince time.Time, take store.Take) (snapshot ledger.Snapshot, err error) {
	err = s.readState(ctx, "loading", func(tx pgx.Tx) error {
		var err error
		snapshot, err = s.load(ctx, tx, epoch, ledger.At(rememberSince), take)
		return err
	})
	if err != nil {
		return ledger.Snapshot{}, err
	}
	return snapshot, nil
}

func (s *Store) load(ctx context.Context, tx pgx.Tx, epoch uint64, since ledger.Instant, take store.Take) (snapshot ledger.Snapshot, err error) {
	meta, err := scanMeta(tx.QueryRow(ctx, metaSQL))
	if err != nil {
		return snapshot, err
	}
	if meta.Epoch != epoch {
		return snapshot, &store.DeposedError{Epoch: epoch, Stored: meta.Epoch}
	}
	snapshot.Revision, snapshot.LastID, snapshot.Time, snapshot.Outages = meta.Sequence, meta.LastID, meta.Time, meta.Outages
	if snapshot.Hosts, err = loadKeyed(ctx, tx, store.HostTable, loadHostsSQL, store.DecodeHost); err != nil {
		return snapshot, err
	}
	if err = loadRest(ctx, tx, &snapshot); err != nil {
		return snapshot, err
	}
	if snapshot.Remembered, err = s.loadRemembered(ctx, tx, since); err != nil {
		return snapshot, err
	}
	err = loadLive(ctx, tx, &snapshot, take)
	return snapshot, err
}

func loadKeyed[T any](ctx context.Context, tx pgx.Tx, table, query string, decode func(string, []byte) (T, error), args ...any) ([]T, error) {
	found, err := tx.Query(ctx, query, args...)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", query, err)
	}
	defer found.Close()
	var list []T
	for found.Next() {
		var key string
		var payload pgtype.DriverBytes // valid until the next row
		if err := found.Scan(&key, &payload); err != nil {
			return nil, fmt.Errorf("%s: %w", query, err)
		}
		var value T
		text := unescape(key)
		if escape(text) == key {
			value, err = decode(text, payload)
		} else {
			err = &store.RowError{Table: table, Key: key, Err: errors.New(`its key has a "\" that stands for nothing`)}
		}
		switch {
		case err == nil:
			list = append(list, value)
		case !store.Needless(err):
			return nil, err
		}
	}
	return list, found.Err() //nolint:wrapcheck // read does
}

// loadRemembered reads the request ids of ended allocations. If the columns of a row are
// unreadable, it uses the payload.
func (s *Store) loadRemembered(ctx context.Context, tx pgx.Tx, since ledger.Instant) ([]ledger.Remembered, error) {
	damaged, err := loadStrays(ctx, tx)
	if err != nil {
		return nil, err
	}
	found, err := tx.Query(ctx, loadRememberedSQL, int64(since))
	if err != nil {
		return nil, fmt.Errorf("request ids: %w", err)
	}
	defer found.Close()
	var list []ledger.Remembered
	for found.Next() {
		var row rememberedRow
		if err := found.Scan(&row.id, &row.caller, &row.request, &row.hash, &row.ended); err != nil {
			return nil, fmt.Errorf("request ids: %w", err)
		}
		if wrong := row.broken(); wrong != nil {
			damaged = append(damaged, *wrong)
		} else {
			list = append(list, row.value())
		}
	}
	if err := found.Err(); err != nil {
		return nil, err //nolint:wrapcheck // read does
	}
	recalled, err := store.Recall(damaged, since, payloads(ctx, tx), s.server.log)
	return append(list, recalled...), err //nolint:wrapcheck // names the row
}

// loadStrays finds rows that, by their column, are neither live nor in the history.
func loadStrays(ctx context.Context, tx querier) (damaged []store.Broken, err error) {
	found, err := tx.Query(ctx, loadStraysSQL)
	if err != nil {
		return nil, fmt.Errorf("rows that ended before 1970: %w", err)
	}
	defer found.Close()
	for found.Next() {
		var id, ended int64
		if err := found.Scan(&id, &ended); err != nil {
			return nil, fmt.Errorf("rows that ended before 1970: %w", err)
		}
		cause := fmt.Errorf("ended: %d: want no time before 1970", ended)
		damaged = append(damaged, store.Broken{ID: ledger.ID(store.Unsigned(id)), Cause: cause})
	}
	return damaged, found.Err() //nolint:wrapcheck // read does
}

// named adds the allocation's id to the error of a column that cannot be scanned: pgx scans the id
// first.
func named(err error, id int64) error {
	if wrong, ok := errors.AsType[pgx.ScanArgError](err); ok && wrong.ColumnIndex > 0 {
		return &store.RowError{Table: store.AllocationTable, Key: ledger.ID(store.Unsigned(id)).String(), Err: err}
	}
	return err
}

// loadLive reads the live rows. Their number is the counted one: both statements have the same
// snapshot.
func loadLive(ctx context.Context, tx pgx.Tx, rest *ledger.Snapshot, take store.Take) error {
	var count int
	if err := tx.QueryRow(ctx, countLiveSQL).Scan(&count); err != nil {
		return err //nolint:wrapcheck // read does
	}
	found, err := tx.Query(ctx, loadLiveSQL)
	if err != nil {
		return fmt.Errorf("live allocations: %w", err)
	}
	defer found.Close()
	return store.DecodeLive(ctx, count, func() (row store.LiveRow, err error) { //nolint:wrapcheck // read does
		if !found.Next() {
			return row, errors.Join(errors.New("fewer live allocations than were counted"), found.Err())
		}
		err = named(found.Scan(&row.ID, &row.Forget, (*pgtype.DriverBytes)(&row.Payload)), row.ID)
		return row, err
	}, rest, take)
}
