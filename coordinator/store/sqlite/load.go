package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/store"
)

const (
	countLiveSQL      = `SELECT count(*) FROM allocation WHERE ended = 0`
	loadLiveSQL       = `SELECT id, forget, payload FROM allocation WHERE ended = 0 ORDER BY id`
	loadHostsSQL      = `SELECT id, payload FROM host ORDER BY id`
	loadQuotasSQL     = `SELECT selector, payload FROM quota ORDER BY selector`
	loadProvidersSQL  = `SELECT name, payload FROM provider ORDER BY name`
	loadRefusalsSQL   = `SELECT id, payload FROM refusal ORDER BY id`
	loadRememberedSQL = `SELECT caller, request_id, request_hash, id, ended FROM allocation
 WHERE ended >= ? AND ended > 0 AND forget = 0 AND request_id <> '' ORDER BY ended, id`
)

// Load implements store.Store.
func (s *Store) Load(ctx context.Context, epoch uint64, rememberSince time.Time) (ledger.Snapshot, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed {
		return ledger.Snapshot{}, store.ErrClosed
	}
	snapshot, err := s.load(ctx, epoch, ledger.At(rememberSince))
	if err != nil {
		return ledger.Snapshot{}, fmt.Errorf("store: loading: %w", classify(err))
	}
	return snapshot, nil
}

// load reads everything in one transaction, so that it is the state after one batch.
func (s *Store) load(ctx context.Context, epoch uint64, since ledger.Instant) (snapshot ledger.Snapshot, err error) {
	tx, err := s.reading.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return snapshot, err
	}
	defer func() { err = errors.Join(err, tx.Rollback()) }()
	meta, err := readMeta(ctx, tx)
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

func loadKeyed[T any](ctx context.Context, q querier, query string, decode func(string, []byte) (T, error)) ([]T, error) {
	rows, err := q.QueryContext(ctx, query)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var list []T
	for rows.Next() {
		var key string
		var payload sql.RawBytes
		if err := rows.Scan(&key, &payload); err != nil {
			return nil, err
		}
		value, err := decode(key, payload)
		if err != nil {
			return nil, err
		}
		list = append(list, value)
	}
	return list, rows.Err()
}

func loadRemembered(ctx context.Context, q querier, since ledger.Instant) ([]ledger.Remembered, error) {
	rows, err := q.QueryContext(ctx, loadRememberedSQL, int64(since))
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var list []ledger.Remembered
	for rows.Next() {
		var r ledger.Remembered
		var hash, id, ended int64
		if err := rows.Scan(&r.Caller, &r.RequestID, &hash, &id, &ended); err != nil {
			return nil, err
		}
		r.RequestHash, r.ID, r.Ended = store.Unsigned(hash), ledger.ID(store.Unsigned(id)), ledger.Instant(ended)
		list = append(list, r)
	}
	return list, rows.Err()
}

// loadLive reads the live rows. There are as many as were counted in the same transaction.
func loadLive(ctx context.Context, q querier) ([]ledger.Allocation, error) {
	var count int
	if err := q.QueryRowContext(ctx, countLiveSQL).Scan(&count); err != nil || count == 0 {
		return nil, err
	}
	rows, err := q.QueryContext(ctx, loadLiveSQL)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	return store.DecodeLive(ctx, count, func() (row store.LiveRow, err error) {
		if !rows.Next() {
			return row, errors.Join(errors.New("fewer live allocations than were counted"), rows.Err())
		}
		err = rows.Scan(&row.ID, &row.Forget, (*sql.RawBytes)(&row.Payload))
		return row, err
	})
}
