package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"sync"

	"github.com/bursar/bursar/coordinator/store"
)

// writer is the connection that writes. Except for its leadership, only the writing goroutine uses
// it.
type writer struct {
	pool *sql.DB
	conn *sql.Conn // nil between a failed transaction and the next one

	statements

	// files are those of the store; empty until all are open.
	files files

	// overwrites: the connection writes zeros over deleted data.
	overwrites bool
	// written counts the pages that commits may have written to the log since the last checkpoint.
	written int
	// firstEnd is the earliest end that was committed since the index of the history began its
	// present step. Only the writing goroutine uses it.
	firstEnd int64

	mu    sync.Mutex
	epoch uint64 // guarded by mu; of the last Lead
	over  bool   // guarded by mu; an error has ended it, or another process had it
}

// statements are prepared on a writer's connection.
type statements struct {
	begin, commit, rollback                      *sql.Stmt
	fence, setEpoch                              *sql.Stmt
	putAllocation, endAllocation, moveAllocation *sql.Stmt
	putHost, removeHost, putQuota, removeQuota   *sql.Stmt
	putProvider, removeProvider                  *sql.Stmt
	putRefusal, removeRefusal                    *sql.Stmt
	putLaunch, removeLaunch                      *sql.Stmt
	deleteEnded                                  *sql.Stmt
}

// The statements that change an allocation's row differ in the indexes that they write: SQLite
// writes every index with a column that is set, changed or not, and the cost of a commit is its
// pages. The first writes no index, and the second not that of request ids. If neither changes a
// row, the third is used.
const (
	insertAllocation = `INSERT INTO allocation (id, state, ended, host_id, caller, request_id, request_hash, forget, payload)
 VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO UPDATE SET state = excluded.state, host_id = excluded.host_id,
 request_hash = excluded.request_hash, forget = excluded.forget, payload = excluded.payload`
	sameRequest = ` WHERE allocation.caller = excluded.caller AND allocation.request_id = excluded.request_id`

	putAllocationSQL = insertAllocation + sameRequest + ` AND allocation.ended = excluded.ended`
	endAllocationSQL = insertAllocation + `, ended = excluded.ended` + sameRequest
	moveSQL          = insertAllocation + `, ended = excluded.ended, caller = excluded.caller, request_id = excluded.request_id`

	// The fence: it changes no row if the epoch is another one. The index of the history must end
	// before the batch's first end: after a clock has gone back, an end could be behind the filled
	// part, without entries.
	fenceSQL = `UPDATE meta SET sequence = ?1, last_id = ?2, ledger_time = ?3, outages = CASE WHEN ?6 = '' THEN outages ELSE ?6 END,
 indexed_id = CASE WHEN ?4 <= indexed_end THEN 9223372036854775807 ELSE indexed_id END, indexed_end = min(indexed_end, ?4 - 1)
 WHERE one = 1 AND epoch = ?5`

	deleteSQL = `DELETE FROM allocation WHERE id = ? AND ended = ? AND ended > 0 RETURNING payload`
)

// connect makes the connection and prepares its statements.
func (w *writer) connect(ctx context.Context) error {
	conn, err := w.pool.Conn(ctx)
	if err != nil {
		return err
	}
	w.conn, w.overwrites = conn, false
	for statement, query := range w.all() {
		if *statement, err = conn.PrepareContext(ctx, query); err != nil { //nolint:sqlclosecheck // disconnect does
			return errors.Join(err, w.disconnect())
		}
	}
	return nil
}

// all returns every statement with its text.
func (s *statements) all() map[**sql.Stmt]string {
	return map[**sql.Stmt]string{
		&s.begin:          `BEGIN IMMEDIATE`,
		&s.commit:         `COMMIT`,
		&s.rollback:       `ROLLBACK`,
		&s.fence:          fenceSQL,
		&s.setEpoch:       `UPDATE meta SET epoch = ? WHERE one = 1`,
		&s.putAllocation:  putAllocationSQL,
		&s.endAllocation:  endAllocationSQL,
		&s.moveAllocation: moveSQL,
		&s.putHost:        `INSERT INTO host (id, payload) VALUES (?, ?) ON CONFLICT (id) DO UPDATE SET payload = excluded.payload`,
		&s.removeHost:     `DELETE FROM host WHERE id = ?`,
		&s.putQuota:       `INSERT INTO quota (selector, payload) VALUES (?, ?) ON CONFLICT (selector) DO UPDATE SET payload = excluded.payload`,
		&s.removeQuota:    `DELETE FROM quota WHERE selector = ?`,
		&s.putProvider:    `INSERT INTO provider (name, payload) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET payload = excluded.payload`,
		&s.removeProvider: `DELETE FROM provider WHERE name = ?`,
		&s.putRefusal:     `INSERT INTO refusal (id, payload) VALUES (?, ?) ON CONFLICT (id) DO UPDATE SET payload = excluded.payload`,
		&s.removeRefusal:  `DELETE FROM refusal WHERE id = ?`,
		&s.putLaunch:      `INSERT INTO launch (id, payload) VALUES (?, ?) ON CONFLICT (id) DO UPDATE SET payload = excluded.payload`,
		&s.removeLaunch:   `DELETE FROM launch WHERE id = ?`,
		&s.deleteEnded:    deleteSQL,
	}
}

// disconnect closes the connection, which rolls back an open transaction. A connection with open
// statements would stay half open.
func (w *writer) disconnect() error {
	if w.conn == nil {
		return nil
	}
	var err error
	for statement := range w.all() {
		if *statement != nil {
			err = errors.Join(err, (*statement).Close())
			*statement = nil
		}
	}
	// do not put it back into the pool
	failed := w.conn.Raw(func(any) error { return driver.ErrBadConn })
	if !errors.Is(failed, driver.ErrBadConn) {
		err = errors.Join(err, failed)
	}
	w.conn = nil
	return err
}

// commitError is a COMMIT that failed.
type commitError struct{ err error }

func (e *commitError) Error() string { return e.err.Error() }
func (e *commitError) Unwrap() error { return e.err }

// transaction runs changes and commits them. After an error it makes a new connection, so that
// nothing of the transaction stays.
func (w *writer) transaction(ctx context.Context, changes func() error) error {
	if w.conn == nil {
		if err := w.reconnect(ctx); err != nil {
			return err
		}
	}
	err := w.attempt(ctx, changes)
	if err == nil || errors.Is(err, store.ErrDeposed) {
		return err
	}
	return errors.Join(err, w.disconnect())
}

// reconnect makes another connection to the same file.
func (w *writer) reconnect(ctx context.Context) error {
	if err := w.files.intact(); err != nil {
		return err
	}
	if err := w.connect(ctx); err != nil {
		return err
	}
	if err := w.files.intact(); err != nil {
		return errors.Join(err, w.disconnect())
	}
	return nil
}

func (w *writer) attempt(ctx context.Context, changes func() error) error {
	if _, err := w.begin.ExecContext(ctx); err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	if err := changes(); err != nil {
		if _, back := w.rollback.ExecContext(ctx); back != nil && errors.Is(err, store.ErrDeposed) {
			return fmt.Errorf("rollback: %w", back)
		}
		return err
	}
	if _, err := w.commit.ExecContext(ctx); err != nil {
		return &commitError{err}
	}
	// Data that was synced to a file after the file lost its name is lost, unless the file was
	// moved and comes back.
	if err := w.files.intact(); err != nil {
		return &commitError{err}
	}
	return nil
}

// beginEpoch makes an epoch the one that may write.
func (w *writer) beginEpoch(epoch uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.epoch, w.over = epoch, false
}

// endAny ends the current epoch.
func (w *writer) endAny() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.over = true
}

// endEpoch ends an epoch, if it is still the current one.
func (w *writer) endEpoch(epoch uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.epoch == epoch {
		w.over = true
	}
}

// check returns an ErrDeposed if an epoch may not write.
func (w *writer) check(epoch uint64) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if epoch != w.epoch || w.over {
		return &store.DeposedError{Epoch: epoch, Stored: w.epoch}
	}
	return nil
}
