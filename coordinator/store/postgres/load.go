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
	loadRememberedSQL = `SELECT caller, request_id, request_hash, id, ended FROM allocation
 WHERE ended >= $1 AND ended > 0 AND forget = 0 AND request_id <> '' ORDER BY ended, id`
)

// Load implements store.Store.
func (s *Store) Load(ctx context.Context, epoch uint64, rememberSince time.Time) (snapshot ledger.Snapshot, err error) {
	err = s.read(ctx, "loading", func(conn *pgx.Conn) error {
		// One transaction with one view, so that it is the state after one batch.
		return pgx.BeginTxFunc(ctx, conn, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
			var err error
			snapshot, err = load(ctx, tx, epoch, ledger.At(rememberSince))
			return err
		})
	})
	if err != nil {
		return ledger.Snapshot{}, err
	}
	return snapshot, nil
}

func load(ctx context.Context, tx pgx.Tx, epoch uint64, since ledger.Instant) (snapshot ledger.Snapshot, err error) {
	meta, err := scanMeta(tx.QueryRow(ctx, metaSQL))
	if err != nil {
		return snapshot, err
	}
	if meta.Epoch != epoch {
		return snapshot, &store.DeposedError{Epoch: epoch, Stored: meta.Epoch}
	}
	snapshot.Revision, snapshot.LastID, snapshot.Time = meta.Sequence, meta.LastID, meta.Time
	if snapshot.Hosts, err = loadKeyed(ctx, tx, loadHostsSQL, store.DecodeHost); err != nil {
		return snapshot, err
	}
	if snapshot.Quotas, err = loadKeyed(ctx, tx, loadQuotasSQL, store.DecodeQuota); err != nil {
		return snapshot, err
	}
	if snapshot.Providers, err = loadKeyed(ctx, tx, loadProvidersSQL, store.DecodeProvider); err != nil {
		return snapshot, err
	}
	if snapshot.Refusals, err = loadKeyed(ctx, tx, loadRefusalsSQL, store.TryRefusal); err != nil {
		return snapshot, err
	}
	snapshot.Refusals = store.Readable(snapshot.Refusals)
	if snapshot.Remembered, err = loadRemembered(ctx, tx, since); err != nil {
		return snapshot, err
	}
	snapshot.Allocations, err = loadLive(ctx, tx)
	return snapshot, err
}

func loadKeyed[T any](ctx context.Context, tx pgx.Tx, query string, decode func(string, []byte) (T, error)) ([]T, error) {
	found, err := tx.Query(ctx, query)
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
		value, err := decode(unescape(key), payload)
		if err != nil {
			return nil, err
		}
		list = append(list, value)
	}
	return list, found.Err() //nolint:wrapcheck // read does
}

func loadRemembered(ctx context.Context, tx pgx.Tx, since ledger.Instant) ([]ledger.Remembered, error) {
	found, err := tx.Query(ctx, loadRememberedSQL, int64(since))
	if err != nil {
		return nil, fmt.Errorf("request ids: %w", err)
	}
	defer found.Close()
	var list []ledger.Remembered
	for found.Next() {
		var r ledger.Remembered
		var hash, id, ended int64
		if err := found.Scan(&r.Caller, &r.RequestID, &hash, &id, &ended); err != nil {
			return nil, fmt.Errorf("request ids: %w", err)
		}
		r.Caller, r.RequestID = unescape(r.Caller), unescape(r.RequestID)
		r.RequestHash, r.ID, r.Ended = store.Unsigned(hash), ledger.ID(store.Unsigned(id)), ledger.Instant(ended)
		list = append(list, r)
	}
	return list, found.Err() //nolint:wrapcheck // read does
}

// loadLive reads the live rows. There are as many as were counted: both statements have the same view.
func loadLive(ctx context.Context, tx pgx.Tx) ([]ledger.Allocation, error) {
	var count int
	if err := tx.QueryRow(ctx, countLiveSQL).Scan(&count); err != nil || count == 0 {
		return nil, err //nolint:wrapcheck // read does
	}
	found, err := tx.Query(ctx, loadLiveSQL)
	if err != nil {
		return nil, fmt.Errorf("live allocations: %w", err)
	}
	defer found.Close()
	return store.DecodeLive(ctx, count, func() (row store.LiveRow, err error) { //nolint:wrapcheck // read does
		if !found.Next() {
			return row, errors.Join(errors.New("fewer live allocations than were counted"), found.Err())
		}
		err = found.Scan(&row.ID, &row.Forget, (*pgtype.DriverBytes)(&row.Payload))
		return row, err
	})
}
