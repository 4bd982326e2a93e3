package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"sync"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/seal"
	"github.com/bursar/bursar/coordinator/store"
)

// Store is a store in a file. See the package comment.
type Store struct {
	path string
	lock *os.File
	// files must stay in their places; empty until all are open.
	files files
	log   *slog.Logger
	// carry is how many pages commits may write to the log before it is checkpointed.
	carry int

	writing, reading, checkpoints *sql.DB
	anchor                        anchor
	reads                         reads // on reading

	writer  *writer
	batches sync.Pool      // of *store.Rows: the memory of batches that have been written
	tasks   chan *task     // for the writing goroutine
	filled  chan struct{}  // buffer of one: the log is long enough for a checkpoint
	ending  sync.WaitGroup // of both goroutines

	indexing sync.Mutex // held by a step of IndexHistory

	mu     sync.RWMutex // held for reading by every call
	closed bool         // guarded by mu
}

var _ store.Store = (*Store)(nil)

// task is a task for the writing goroutine.
type task struct {
	ctx  context.Context //nolint:containedctx // of the call; it goes to another goroutine
	run  func(context.Context, *writer) error
	done chan error // buffer of one
}

// start starts the goroutines. Close waits for them.
func (s *Store) start() {
	s.tasks = make(chan *task)
	s.filled = make(chan struct{}, 1)
	s.ending.Go(func() {
		defer close(s.filled)
		for t := range s.tasks {
			t.done <- t.run(t.ctx, s.writer)
			s.signal()
		}
	})
	s.ending.Go(s.carryOver)
}

// do makes the writing goroutine run a task. A task that has begun is not interrupted: if it takes
// too long, the call stops waiting for it, but SQLite goes on. Then ended is false: the task ends
// later.
func (s *Store) do(ctx context.Context, run func(context.Context, *writer) error) (ended bool, err error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed {
		return true, store.ErrClosed
	}
	if err := ctx.Err(); err != nil {
		return true, err
	}
	t := &task{context.WithoutCancel(ctx), run, make(chan error, 1)}
	select {
	case s.tasks <- t:
	case <-ctx.Done():
		return true, ctx.Err()
	}
	select {
	case err := <-t.done:
		return true, err
	case <-ctx.Done():
	}
	select {
	case err := <-t.done: // at the same moment
		return true, err
	default:
		return false, ctx.Err()
	}
}

// Lead implements store.Store.
func (s *Store) Lead(ctx context.Context, atLeast uint64) (store.Meta, error) {
	var meta store.Meta
	_, err := s.do(ctx, func(ctx context.Context, w *writer) error {
		led, err := w.lead(ctx, atLeast)
		meta = led
		return err
	})
	if err != nil {
		return store.Meta{}, fmt.Errorf("store: taking the lead: %w", classify(err))
	}
	return meta, nil
}

// lead raises the epoch in a transaction of its own. The previous epoch ends even if the outcome is
// unknown.
func (w *writer) lead(ctx context.Context, atLeast uint64) (store.Meta, error) {
	w.endAny()
	var meta store.Meta
	err := w.transaction(ctx, func() error {
		var err error
		if meta, err = readMeta(ctx, w.conn); err != nil {
			return err
		}
		if meta.Epoch >= math.MaxInt64 || atLeast > math.MaxInt64 {
			return fmt.Errorf("epoch %d, at least %d: want less than 2^63", meta.Epoch, atLeast)
		}
		if meta.SealKeys, err = w.sealKeys(ctx); err != nil {
			return err
		}
		meta.Epoch = max(meta.Epoch+1, atLeast)
		_, err = w.setEpoch.ExecContext(ctx, store.Signed(meta.Epoch))
		return err
	})
	if err == nil {
		w.beginEpoch(meta.Epoch)
	}
	return meta, err
}

// sealKeys reads the keys of the store. If there are none, or they are damaged, it makes a new one.
func (w *writer) sealKeys(ctx context.Context) (seal.Keys, error) {
	var kept any
	if err := w.conn.QueryRowContext(ctx, `SELECT seal_keys FROM meta WHERE one = 1`).Scan(&kept); err != nil {
		return "", fmt.Errorf("reading meta: %w", err)
	}
	if found, ok := kept.([]byte); ok && seal.Keys(found).Valid() {
		return seal.Keys(found), nil
	}
	keys := seal.NewKeys()
	_, err := w.conn.ExecContext(ctx, `UPDATE meta SET seal_keys = ? WHERE one = 1`, []byte(keys))
	return keys, err
}

// Meta implements store.Store.
func (s *Store) Meta(ctx context.Context) (store.Meta, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed {
		return store.Meta{}, store.ErrClosed
	}
	meta, err := scanMeta(s.reads.meta.QueryRowContext(ctx))
	if err != nil {
		return meta, fmt.Errorf("store: %w", classify(err))
	}
	return meta, nil
}

// querier is a connection, a transaction or a pool.
type querier interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

const metaSQL = `SELECT store_id, cluster, epoch, sequence, last_id, ledger_time, outages, (SELECT max(version_id) FROM goose_db_version) FROM meta WHERE one = 1`

// readMeta reads the row of meta.
func readMeta(ctx context.Context, q querier) (store.Meta, error) {
	return scanMeta(q.QueryRowContext(ctx, metaSQL))
}

func scanMeta(row *sql.Row) (store.Meta, error) {
	var meta store.Meta
	var id, cluster, outages column[string]
	var epoch, sequence, lastID, now column[int64]
	if err := row.Scan(&id, &cluster, &epoch, &sequence, &lastID, &now, &outages, &meta.Schema); err != nil {
		return store.Meta{}, fmt.Errorf("reading meta: %w", err)
	}
	if wrong := cmp.Or(id.wrong, cluster.wrong, epoch.wrong, sequence.wrong, lastID.wrong, now.wrong, outages.wrong); wrong != nil {
		return store.Meta{}, fmt.Errorf("%w: a column of meta: %w", store.ErrDamaged, wrong)
	}
	meta.StoreID, meta.Cluster, meta.Outages = id.value, cluster.value, outages.value
	meta.Epoch, meta.Sequence = store.Unsigned(epoch.value), store.Unsigned(sequence.value)
	meta.LastID, meta.Time = ledger.ID(store.Unsigned(lastID.value)), ledger.Instant(now.value)
	return meta, nil
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
	close(s.tasks)
	s.ending.Wait()
	return s.release()
}

// release closes the connections and files of open. The last closed connection checkpoints the log
// into the file and removes it.
func (s *Store) release() error {
	var err error
	if s.writer != nil {
		err = s.writer.disconnect()
	}
	err = errors.Join(err, s.reads.close())
	for _, db := range []*sql.DB{s.reading, s.checkpoints, s.writing} {
		if db != nil {
			err = errors.Join(err, db.Close())
		}
	}
	err = errors.Join(err, s.anchor.close())
	if err = errors.Join(err, s.lock.Close()); err != nil {
		return fmt.Errorf("store: closing %s: %w", s.path, classify(err))
	}
	return nil
}
