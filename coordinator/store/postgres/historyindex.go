package postgres

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/store"
)

const (
	indexedSQL = `SELECT indexed_end, indexed_id FROM meta WHERE one = 1`

	toIndexSQL = `SELECT id, ended, payload FROM allocation WHERE ended > 0 AND ended < $1 AND (ended, id) > ($2, $3)
 ORDER BY ended, id LIMIT $4`

	addEntriesSQL = `INSERT INTO history_index (term, ended, id) SELECT e.term, e.ended, e.id
 FROM unnest($1::bigint[], $2::bigint[], $3::bigint[]) AS e (term, ended, id) ON CONFLICT DO NOTHING`

	// The conditions are those of a commit. If the database was restored, its writes are lost, and
	// the position must not claim them.
	setIndexedSQL = `UPDATE meta SET indexed_end = $1, indexed_id = $2 WHERE one = 1 AND epoch = $3 AND sequence = $4 AND leadership = $5`

	deleteEntriesSQL = `DELETE FROM history_index i USING unnest($1::bigint[], $2::bigint[], $3::bigint[]) AS d (term, ended, id)
 WHERE i.term = d.term AND i.ended = d.ended AND i.id = d.id`

	// nextEntrySQL finds the next entry, and whether its allocation still exists.
	nextEntrySQL = `SELECT i.term, i.ended, i.id, a.id IS NOT NULL FROM
 (SELECT term, ended, id FROM history_index WHERE (term, ended, id) > ($1, $2, $3) ORDER BY term, ended, id LIMIT 1) i
 LEFT JOIN allocation a ON a.id = i.id AND a.ended = i.ended`

	// rareSQL finds the end of an entry some way behind a position.
	rareSQL = `SELECT ended FROM history_index WHERE term = $1 AND (ended, id) < ($2, $3) ORDER BY ended DESC, id DESC LIMIT 1 OFFSET $4`

	// foundSQL reads entries of a term, and the allocations that also have all the other terms. It
	// rejects the others by the index alone.
	foundSQL = `SELECT i.id, i.ended, a.state, a.host_id, a.forget, a.payload FROM
 (SELECT e.id, e.ended, CASE WHEN NOT EXISTS (SELECT 1 FROM unnest($1::bigint[]) AS t (term) WHERE NOT EXISTS
 (SELECT 1 FROM history_index o WHERE o.term = t.term AND o.ended = e.ended AND o.id = e.id)) THEN e.id END AS has_all
 FROM history_index e WHERE e.term = $2 AND (e.ended, e.id) < ($3, $4) ORDER BY e.ended DESC, e.id DESC LIMIT $5) i
 LEFT JOIN allocation a ON a.id = i.has_all AND a.ended = i.ended ORDER BY i.ended DESC, i.id DESC`
)

// scanIndexed reads the position up to which the index of the history is filled.
func scanIndexed(row pgx.Row) (store.Position, error) {
	var ended, id int64
	err := row.Scan(&ended, &id)
	return store.Position{Ended: ledger.Instant(ended), ID: ledger.ID(store.Unsigned(id))}, err //nolint:wrapcheck // read does
}

// IndexHistory implements store.Store.
func (s *Store) IndexHistory(ctx context.Context, epoch uint64, before ledger.Instant, limit int) (int, error) {
	s.indexing.Lock()
	defer s.indexing.Unlock()
	if err := s.enter(); err != nil {
		return 0, err
	}
	defer s.leave()
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

// nextToIndex reads the next rows during commits. From now on the writer records the earliest new
// end.
func (s *Store) nextToIndex(ctx context.Context, epoch uint64, before ledger.Instant, limit int) (*rowsToIndex, error) {
	err := s.writer.alone(ctx, func() error {
		s.writer.firstEnd = math.MaxInt64
		_, err := s.writer.may(epoch)
		return err
	})
	if err != nil {
		return nil, err
	}
	next := &rowsToIndex{}
	return next, s.server.read(ctx, s.reading, func(conn *pgx.Conn) error {
		*next = rowsToIndex{}
		return next.read(ctx, conn, before, limit)
	})
}

// addToIndex writes entries during commits. It uses the writer's connection only to store the new
// position of the index, so that no commit is in flight then.
func (s *Store) addToIndex(ctx context.Context, epoch uint64, next *rowsToIndex) error {
	err := s.server.read(ctx, s.reading, func(conn *pgx.Conn) error { return changeEntries(ctx, conn, addEntriesSQL, next.entries) })
	if err != nil {
		return err
	}
	return s.writer.use(ctx, false, func(conn *pgx.Conn) error { return s.setIndexed(ctx, conn, epoch, next.to) })
}

// setIndexed stores the position up to which the index is filled: to, or before the first end that
// was committed since.
func (s *Store) setIndexed(ctx context.Context, conn *pgx.Conn, epoch uint64, to store.Position) error {
	own, err := s.writer.may(epoch)
	if err != nil {
		return err
	}
	if s.writer.firstEnd <= int64(to.Ended) {
		to = store.BeforeAll(ledger.Instant(s.writer.firstEnd))
	}
	tag, err := conn.Exec(ctx, setIndexedSQL, int64(to.Ended), store.Signed(uint64(to.ID)), store.Signed(epoch), own.sequence, own.secret)
	if err == nil && tag.RowsAffected() != 1 {
		err = &store.DeposedError{Epoch: epoch, Stored: epoch} // the leader is not known
	}
	return err //nolint:wrapcheck // IndexHistory does
}

// rowsToIndex are the next rows that are not indexed yet.
type rowsToIndex struct {
	rows    int
	entries []store.IndexEntry
	to      store.Position // the last row's
}

func (r *rowsToIndex) read(ctx context.Context, conn *pgx.Conn, before ledger.Instant, limit int) (err error) {
	if r.to, err = scanIndexed(conn.QueryRow(ctx, indexedSQL)); err != nil {
		return err
	}
	found, err := conn.Query(ctx, toIndexSQL, int64(before), int64(r.to.Ended), store.Signed(uint64(r.to.ID)), limit)
	if err != nil {
		return err //nolint:wrapcheck // IndexHistory does
	}
	defer found.Close()
	for ; found.Next(); r.rows++ {
		var id, ended int64
		var payload pgtype.DriverBytes // valid until the next row
		if err := found.Scan(&id, &ended, &payload); err != nil {
			return named(err, id)
		}
		r.to = store.Position{Ended: ledger.Instant(ended), ID: ledger.ID(store.Unsigned(id))}
		r.entries = store.IndexEntries(r.entries, r.to, payload)
	}
	return found.Err() //nolint:wrapcheck // as above
}

// changeEntries runs a statement for entries, in the order of the index.
func changeEntries(ctx context.Context, conn interface {
	Exec(ctx context.Context, sql string, arguments ...any) (pgconn.CommandTag, error)
}, statement string, entries []store.IndexEntry,
) error {
	if len(entries) == 0 {
		return nil
	}
	slices.SortFunc(entries, store.IndexEntry.Compare)
	terms, ends, ids := make([]int64, len(entries)), make([]int64, len(entries)), make([]int64, len(entries))
	for i := range entries {
		e := &entries[i]
		terms[i], ends[i], ids[i] = e.Term, int64(e.Ended), store.Signed(uint64(e.ID))
	}
	_, err := conn.Exec(ctx, statement, terms, ends, ids)
	return err //nolint:wrapcheck // the callers do
}

// SweepIndex implements store.Store.
func (s *Store) SweepIndex(ctx context.Context, after store.IndexEntry, before ledger.Instant, limit int) (at store.IndexEntry, done bool, err error) {
	err = s.read(ctx, "cleaning the index of the history", func(conn *pgx.Conn) error {
		var gone []store.IndexEntry
		at, gone, done, err = lookForLeft(ctx, conn, after, before, limit)
		if err != nil {
			return err
		}
		return changeEntries(ctx, conn, deleteEntriesSQL, gone)
	})
	if err != nil {
		return after, false, err
	}
	return at, done, nil
}

// lookForLeft visits one term after the other. It collects the oldest entry of each if it is old
// and has no allocation, and stays with that term.
func lookForLeft(ctx context.Context, conn *pgx.Conn, at store.IndexEntry, before ledger.Instant, limit int) (_ store.IndexEntry, gone []store.IndexEntry, done bool, err error) {
	for range limit {
		var term, ended, id int64
		var kept bool
		err := conn.QueryRow(ctx, nextEntrySQL, at.Term, int64(at.Ended), store.Signed(uint64(at.ID))).Scan(&term, &ended, &id, &kept)
		if errors.Is(err, pgx.ErrNoRows) {
			return at, gone, true, nil
		}
		if err != nil {
			return at, nil, false, err //nolint:wrapcheck // read does
		}
		if at = store.AfterTerm(term); !kept && ledger.Instant(ended) < before {
			at.Position = store.Position{Ended: ledger.Instant(ended), ID: ledger.ID(store.Unsigned(id))}
			gone = append(gone, at)
		}
	}
	return at, gone, false, nil
}
