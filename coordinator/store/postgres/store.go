package postgres

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/seal"
	"github.com/bursar/bursar/coordinator/store"
)

// Store is a store in a database. See the package comment.
type Store struct {
	server   *server
	reading  *pgxpool.Pool
	writer   *writer
	cluster  string
	intoCopy bool

	batches sync.Pool // of *arguments: the memory of batches that have been written

	indexing sync.Mutex // held by a step of IndexHistory

	mu     sync.RWMutex // held for reading by every call
	closed bool         // guarded by mu
}

var _ store.Store = (*Store)(nil)

// enter begins a call; leave ends it. Close waits for calls that have begun.
func (s *Store) enter() error {
	s.mu.RLock()
	if s.closed {
		s.mu.RUnlock()
		return store.ErrClosed
	}
	return nil
}

func (s *Store) leave() { s.mu.RUnlock() }

// Lead implements store.Store.
func (s *Store) Lead(ctx context.Context, atLeast uint64) (store.Meta, error) {
	if err := s.enter(); err != nil {
		return store.Meta{}, err
	}
	defer s.leave()
	meta, err := s.lead(ctx, atLeast)
	if err != nil {
		return store.Meta{}, fmt.Errorf("store: taking the lead: %w", classify(err))
	}
	return meta, nil
}

const (
	metaColumns = `store_id, cluster, epoch, sequence, last_id, ledger_time, outages, (SELECT max(version_id) FROM ` + versionTable + `)`
	metaSQL     = `SELECT ` + metaColumns + ` FROM meta WHERE one = 1`
	// This waits for a commit of the previous leader in progress, which locks the row. If a version
	// without the index has led since, the index is filled again.
	leadSQL = `UPDATE meta SET epoch = greatest(epoch + 1, $1), cluster = CASE WHEN cluster = '' THEN $2::text ELSE cluster END,
 indexed_end = CASE WHEN indexed_sequence = sequence THEN indexed_end ELSE 0 END, indexed_sequence = sequence,
 leadership = $4, seal_keys = CASE WHEN length(seal_keys) = 0 OR length(seal_keys) % 32 <> 0 THEN $5 ELSE seal_keys END WHERE one = 1 AND epoch < 9223372036854775807 AND ($2::text = '' OR cluster IN ('', $2::text)) AND (copying = '' OR $3)
 AND ` + markText + ` = $6::text RETURNING ` + metaColumns + `, seal_keys, ` + durablyNow
)

// lead raises the epoch. The previous epoch ends even if the outcome is unknown.
func (s *Store) lead(ctx context.Context, atLeast uint64) (meta store.Meta, err error) {
	s.writer.endAny()
	if atLeast > math.MaxInt64 {
		return meta, fmt.Errorf("at least epoch %d: want less than 2^63", atLeast)
	}
	secret := strings.ToLower(rand.Text())
	err = s.writer.use(ctx, true, func(conn *pgx.Conn) error {
		var keys []byte
		meta, err = scanMeta(conn.QueryRow(ctx, leadSQL, store.Signed(atLeast), s.cluster, s.intoCopy, secret, []byte(seal.NewKeys()), markOf(conn)), &keys, new(*string))
		meta.SealKeys = seal.Keys(keys)
		if errors.Is(err, pgx.ErrNoRows) {
			return s.mayNotLead(ctx, conn)
		}
		if err == nil {
			s.beginRecords(ctx, conn, secret)
		}
		return err
	})
	if err == nil {
		s.writer.begin(term{epoch: meta.Epoch, secret: secret, sequence: store.Signed(meta.Sequence)})
	}
	return meta, err
}

// mayNotLead returns the reason why no row of meta was changed.
func (s *Store) mayNotLead(ctx context.Context, conn *pgx.Conn) error {
	if err := s.server.checkSession(ctx, conn, markOf(conn)); err != nil {
		return err
	}
	if err := s.server.admit(ctx, conn, s.cluster, s.intoCopy); err != nil {
		return err
	}
	return errors.New("the epoch has reached its end: want less than 2^63")
}

// scanMeta reads metaColumns, and more columns behind them.
func scanMeta(row pgx.Row, more ...any) (store.Meta, error) {
	var meta store.Meta
	var epoch, sequence, lastID, now int64
	into := append([]any{&meta.StoreID, &meta.Cluster, &epoch, &sequence, &lastID, &now, &meta.Outages, &meta.Schema}, more...)
	if err := row.Scan(into...); err != nil {
		return store.Meta{}, fmt.Errorf("reading meta: %w", err)
	}
	meta.Epoch, meta.Sequence, meta.LastID = store.Unsigned(epoch), store.Unsigned(sequence), ledger.ID(store.Unsigned(lastID))
	meta.Time = ledger.Instant(now)
	return meta, nil
}

// Meta implements store.Store.
func (s *Store) Meta(ctx context.Context) (meta store.Meta, err error) {
	err = s.read(ctx, "reading meta", func(conn *pgx.Conn) error {
		meta, err = scanMeta(conn.QueryRow(ctx, metaSQL))
		return err
	})
	return meta, err
}

// read runs a read of the store, perhaps twice.
func (s *Store) read(ctx context.Context, what string, run func(conn *pgx.Conn) error) error {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.leave()
	err := s.server.read(ctx, s.reading, run)
	if err == nil || errors.Is(err, store.ErrNotFound) {
		return err
	}
	return fmt.Errorf("store: %s: %w", what, classify(err))
}

// Close implements store.Store.
func (s *Store) Close() error {
	s.mu.Lock() // waits for calls in flight
	closed := s.closed
	s.closed = true
	s.mu.Unlock()
	if closed {
		return nil
	}
	s.writer.close()
	s.reading.Close()
	return nil
}
