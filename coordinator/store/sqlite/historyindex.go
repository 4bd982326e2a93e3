package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/store"
)

const (
	indexedSQL = `SELECT indexed_end, indexed_id FROM meta WHERE one = 1`

	// Texts in a column of numbers sort behind all numbers.
	toIndexSQL = `SELECT id, ended, payload FROM allocation WHERE ended > 0 AND ended < ? AND (ended, id) > (?, ?)
 ORDER BY ended, id LIMIT ?`

	setIndexedSQL  = `UPDATE meta SET indexed_end = ?, indexed_id = ? WHERE one = 1`
	addEntrySQL    = `INSERT OR IGNORE INTO history_index (term, ended, id) VALUES (?, ?, ?)`
	deleteEntrySQL = `DELETE FROM history_index WHERE term = ? AND ended = ? AND id = ?`

	// nextEntrySQL finds the next entry, and whether its allocation still exists.
	nextEntrySQL = `SELECT term, ended, id, EXISTS (SELECT 1 FROM allocation a WHERE a.id = i.id AND a.ended = i.ended)
 FROM history_index i WHERE (term, ended, id) > (?, ?, ?) ORDER BY term, ended, id LIMIT 1`

	// rareSQL finds the end of an entry some way behind a position.
	rareSQL = `SELECT ended FROM history_index WHERE term = ? AND (ended, id) < (?, ?) ORDER BY ended DESC, id DESC LIMIT 1 OFFSET ?`
)

// entriesAtOnce is how many entries are written or deleted while commits wait: some 3 ms.
const entriesAtOnce = 512

// foundSQL reads entries of a term, and the allocations that also have so many other terms. It
// rejects the others by the index alone.
func foundSQL(others int) string {
	id := "i.id"
	if others > 0 {
		const has = "EXISTS (SELECT 1 FROM history_index o WHERE o.term = ? AND o.ended = i.ended AND o.id = i.id)"
		id = "CASE WHEN " + strings.Repeat(has+" AND ", others-1) + has + " THEN i.id END"
	}
	return `SELECT i.id, i.ended, a.state, a.host_id, a.forget, a.payload FROM history_index i
 LEFT JOIN allocation a ON a.id = ` + id + ` AND a.ended = i.ended
 WHERE i.term = ? AND (i.ended, i.id) < (?, ?) ORDER BY i.ended DESC, i.id DESC LIMIT ?`
}

// scanIndexed reads the position up to which the index of the history is filled.
func scanIndexed(row *sql.Row) (store.Position, error) {
	var ended, id int64
	err := row.Scan(&ended, &id)
	return store.Position{Ended: ledger.Instant(ended), ID: ledger.ID(store.Unsigned(id))}, err
}

// IndexHistory implements store.Store.
func (s *Store) IndexHistory(ctx context.Context, epoch uint64, before ledger.Instant, limit int) (int, error) {
	s.indexing.Lock()
	defer s.indexing.Unlock()
	next, err := s.nextToIndex(ctx, epoch, before, limit)
	if err == nil && next.rows > 0 {
		err = s.addToIndex(ctx, epoch, next)
	}
	switch {
	case err == nil:
		return next.rows, nil
	case errors.Is(err, store.ErrDeposed):
		return 0, err
	default:
		return 0, fmt.Errorf("store: filling the index of the history: %w", classify(err))
	}
}

// rowsToIndex are the next rows that are not indexed yet.
type rowsToIndex struct {
	rows    int
	entries []store.IndexEntry
	to      store.Position // the last row's
}

// nextToIndex reads the next rows during commits. From now on the writer records the earliest new
// end.
func (s *Store) nextToIndex(ctx context.Context, epoch uint64, before ledger.Instant, limit int) (*rowsToIndex, error) {
	err := s.task(ctx, func(_ context.Context, w *writer) error {
		w.firstEnd = math.MaxInt64
		return w.check(epoch)
	})
	if err != nil {
		return nil, err
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed {
		return nil, store.ErrClosed
	}
	next := &rowsToIndex{}
	return next, next.read(ctx, s, before, limit)
}

func (r *rowsToIndex) read(ctx context.Context, s *Store, before ledger.Instant, limit int) (err error) {
	if r.to, err = scanIndexed(s.reads.indexed.QueryRowContext(ctx)); err != nil {
		return err
	}
	rows, err := s.reads.toIndex.QueryContext(ctx, int64(before), int64(r.to.Ended), store.Signed(uint64(r.to.ID)), limit)
	if err != nil {
		return err
	}
	defer rows.Close()
	for ; rows.Next(); r.rows++ {
		var id, ended int64
		var payload sql.RawBytes
		if err := rows.Scan(&id, &ended, &payload); err != nil {
			return err
		}
		r.to = store.Position{Ended: ledger.Instant(ended), ID: ledger.ID(store.Unsigned(id))}
		r.entries = store.IndexEntries(r.entries, r.to, payload)
	}
	return rows.Err()
}

// addToIndex writes entries. Then it stores the position of the index: up to these rows, or before
// the first end that was committed since the read.
func (s *Store) addToIndex(ctx context.Context, epoch uint64, next *rowsToIndex) error {
	slices.SortFunc(next.entries, store.IndexEntry.Compare)
	for part := range slices.Chunk(next.entries, entriesAtOnce) {
		if err := s.changeEntries(ctx, addEntrySQL, part); err != nil {
			return err
		}
	}
	return s.task(ctx, func(ctx context.Context, w *writer) error {
		if err := w.check(epoch); err != nil {
			return err
		}
		to := next.to
		if w.firstEnd <= int64(to.Ended) {
			to = store.BeforeAll(ledger.Instant(w.firstEnd))
		}
		return w.transaction(ctx, func() error {
			_, err := w.conn.ExecContext(ctx, setIndexedSQL, int64(to.Ended), store.Signed(uint64(to.ID)))
			w.written++
			return err
		})
	})
}

// task is do for a task that must not be given up.
func (s *Store) task(ctx context.Context, run func(context.Context, *writer) error) error {
	_, err := s.do(ctx, run)
	return err
}

// changeEntries runs a statement for each entry, in one transaction.
func (s *Store) changeEntries(ctx context.Context, statement string, entries []store.IndexEntry) error {
	return s.task(ctx, func(ctx context.Context, w *writer) error {
		return w.transaction(ctx, func() error { return w.changeEntries(ctx, statement, entries) })
	})
}

func (w *writer) changeEntries(ctx context.Context, statement string, entries []store.IndexEntry) error {
	prepared, err := w.conn.PrepareContext(ctx, statement)
	if err != nil {
		return err
	}
	defer prepared.Close()
	for i := range entries {
		e := &entries[i]
		if _, err := prepared.ExecContext(ctx, e.Term, int64(e.Ended), store.Signed(uint64(e.ID))); err != nil {
			return err
		}
	}
	w.written += len(entries)
	return nil
}

// SweepIndex implements store.Store.
func (s *Store) SweepIndex(ctx context.Context, after store.IndexEntry, before ledger.Instant, limit int) (at store.IndexEntry, done bool, err error) {
	at, gone, done, err := s.lookForLeft(ctx, after, before, limit)
	if err == nil && len(gone) > 0 {
		err = s.changeEntries(ctx, deleteEntrySQL, gone)
	}
	if err != nil {
		return after, false, fmt.Errorf("store: cleaning the index of the history: %w", classify(err))
	}
	return at, done, nil
}

// lookForLeft visits one term after the other. It collects the oldest entry of each if it is old
// and has no allocation, and stays with that term.
func (s *Store) lookForLeft(ctx context.Context, at store.IndexEntry, before ledger.Instant, limit int) (_ store.IndexEntry, gone []store.IndexEntry, done bool, err error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed {
		return at, nil, false, store.ErrClosed
	}
	for range limit {
		var term, ended, id int64
		var kept bool
		err := s.reads.nextEntry.QueryRowContext(ctx, at.Term, int64(at.Ended), store.Signed(uint64(at.ID))).Scan(&term, &ended, &id, &kept)
		if errors.Is(err, sql.ErrNoRows) {
			return at, gone, true, nil
		}
		if err != nil {
			return at, nil, false, err
		}
		if at = store.AfterTerm(term); !kept && ledger.Instant(ended) < before {
			at.Position = store.Position{Ended: ledger.Instant(ended), ID: ledger.ID(store.Unsigned(id))}
			gone = append(gone, at)
		}
	}
	return at, gone, false, nil
}
