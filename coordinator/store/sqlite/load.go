package sqlite

import (
	"cmp"
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
	loadRememberedSQL = `SELECT id, caller, request_id, request_hash, ended FROM allocation
 WHERE ended >= ? AND ended > 0 AND ended <= 9223372036854775807 AND forget = 0 AND request_id <> '' ORDER BY ended, id`
	// In SQLite, texts and bytes are greater than every number.
	loadStraysSQL = `SELECT id, ended FROM allocation WHERE ended < 0 OR ended > 9223372036854775807`
)

// Load implements store.Store.
func (s *Store) Load(ctx context.Context, epoch uint64, rememberSince time.Time, take store.Take) (ledger.Snapshot, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed {
		return ledger.Snapshot{}, store.ErrClosed
	}
	snapshot, err := s.load(ctx, epoch, ledger.At(rememberSince), take)
	if err != nil {
		return ledger.Snapshot{}, fmt.Errorf("store: loading: %w", classify(err))
	}
	return snapshot, nil
}

// load reads everything in one transaction, so that it is the state after one batch.
func (s *Store) load(ctx context.Context, epoch uint64, since ledger.Instant, take store.Take) (snapshot ledger.Snapshot, err error) {
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
	snapshot.Revision, snapshot.LastID, snapshot.Time, snapshot.Outages = meta.Sequence, meta.LastID, meta.Time, meta.Outages
	if snapshot.Hosts, err = loadKeyed(ctx, tx, store.HostTable, loadHostsSQL, store.DecodeHost); err != nil {
		return snapshot, err
	}
	if snapshot.Quotas, err = loadKeyed(ctx, tx, store.QuotaTable, loadQuotasSQL, store.DecodeQuota); err != nil {
		return snapshot, err
	}
	if snapshot.Providers, err = loadKeyed(ctx, tx, store.ProviderTable, loadProvidersSQL, store.DecodeProvider); err != nil {
		return snapshot, err
	}
	if snapshot.Refusals, err = loadKeyed(ctx, tx, store.RefusalTable, loadRefusalsSQL, store.DecodeRefusal); err != nil {
		return snapshot, err
	}
	if snapshot.Remembered, err = s.loadRemembered(ctx, tx, since); err != nil {
		return snapshot, err
	}
	err = loadLive(ctx, tx, &snapshot, take)
	return snapshot, err
}

func loadKeyed[T any](ctx context.Context, q querier, table, query string, decode func(string, []byte) (T, error)) ([]T, error) {
	rows, err := q.QueryContext(ctx, query)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var list []T
	for rows.Next() {
		var key any // bytes and an equal text are different keys
		var payload sql.RawBytes
		if err := rows.Scan(&key, &payload); err != nil {
			return nil, err
		}
		var value T
		text, isText := key.(string)
		if isText {
			value, err = decode(text, payload)
		} else {
			err = &store.RowError{Table: table, Key: fmt.Sprintf("%s", key), Err: fmt.Errorf("its key is %s: want a text", typeName(key))}
		}
		switch {
		case err == nil:
			list = append(list, value)
		case !store.Needless(err):
			return nil, err
		}
	}
	return list, rows.Err()
}

// loadRemembered reads the request ids of ended allocations. If the columns of a row are
// unreadable, it uses the payload.
func (s *Store) loadRemembered(ctx context.Context, q querier, since ledger.Instant) ([]ledger.Remembered, error) {
	damaged, err := loadStrays(ctx, q)
	if err != nil {
		return nil, err
	}
	rows, err := q.QueryContext(ctx, loadRememberedSQL, int64(since))
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var list []ledger.Remembered
	var row rememberedRow
	for rows.Next() {
		if err := rows.Scan(&row.id, &row.caller, &row.request, &row.hash, &row.ended); err != nil {
			return nil, err
		}
		if wrong := row.broken(); wrong != nil {
			damaged = append(damaged, *wrong)
		} else {
			list = append(list, row.value())
		}
	}
	if err := rows.Err(); err != nil {
		return nil, err
	}
	recalled, err := store.Recall(damaged, since, payloads(ctx, q), s.log)
	return append(list, recalled...), err
}

// loadStrays finds rows that, by their column, are neither live nor in the history.
func loadStrays(ctx context.Context, q querier) (damaged []store.Broken, err error) {
	rows, err := q.QueryContext(ctx, loadStraysSQL)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var id int64
		var ended column[int64]
		if err := rows.Scan(&id, &ended); err != nil {
			return nil, err
		}
		damaged = append(damaged, *broken(id, "ended", cmp.Or(ended.wrong, fmt.Errorf("%d: want no time before 1970", ended.value))))
	}
	return damaged, rows.Err()
}

// loadLive reads the live rows. Their number is the one that was counted in the same transaction.
func loadLive(ctx context.Context, q querier, rest *ledger.Snapshot, take store.Take) error {
	var count int
	if err := q.QueryRowContext(ctx, countLiveSQL).Scan(&count); err != nil {
		return err
	}
	rows, err := q.QueryContext(ctx, loadLiveSQL)
	if err != nil {
		return err
	}
	defer rows.Close()
	var forget column[int64]
	return store.DecodeLive(ctx, count, func() (row store.LiveRow, err error) {
		if !rows.Next() {
			return row, errors.Join(errors.New("fewer live allocations than were counted"), rows.Err())
		}
		err = rows.Scan(&row.ID, &forget, (*sql.RawBytes)(&row.Payload))
		if err == nil && forget.wrong != nil {
			err = broken(row.ID, "forget", forget.wrong).Err()
		}
		row.Forget = forget.value
		return row, err
	}, rest, take)
}
