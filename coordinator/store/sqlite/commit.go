package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"

	"github.com/bursar/bursar/coordinator/store"
)

// Commit implements store.Store.
func (s *Store) Commit(ctx context.Context, batch store.Batch) error {
	err := s.commit(ctx, &batch)
	if err == nil {
		return nil
	}
	s.writer.endEpoch(batch.Epoch)
	if errors.Is(err, store.ErrDeposed) || errors.Is(err, store.ErrClosed) {
		return err
	}
	return fmt.Errorf("store: commit: %w", classify(err))
}

func (s *Store) commit(ctx context.Context, batch *store.Batch) error {
	if batch.Empty() {
		return s.checkEpoch(ctx, batch.Epoch)
	}
	b, _ := s.batches.Get().(*store.Rows)
	if b == nil {
		b = &store.Rows{}
	}
	if err := b.Encode(batch); err != nil {
		return err
	}
	ended, err := s.do(ctx, func(ctx context.Context, w *writer) error { return w.write(ctx, b) })
	if !ended {
		return fmt.Errorf("%w: %w", store.ErrUnknownOutcome, err)
	}
	b.Reset()
	s.batches.Put(b)
	var failed *commitError
	if errors.As(err, &failed) && !notCommitted(failed) {
		return fmt.Errorf("%w: %w", store.ErrUnknownOutcome, err)
	}
	return err
}

// checkEpoch needs no read: no other process writes the epoch while this process holds the lock,
// and the file and the lock are in their places.
func (s *Store) checkEpoch(ctx context.Context, epoch uint64) error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed {
		return store.ErrClosed
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := s.writer.check(epoch); err != nil {
		return err
	}
	return s.files.intact()
}

// write makes a batch durable.
func (w *writer) write(ctx context.Context, b *store.Rows) error {
	if err := w.check(store.Unsigned(b.Epoch)); err != nil {
		return err
	}
	w.firstEnd = min(w.firstEnd, b.FirstEnd)
	return w.transaction(ctx, func() error {
		if err := w.overwrite(ctx, len(b.Launches)+len(b.LaunchesGone) > 0); err != nil {
			return err
		}
		result, err := w.fence.ExecContext(ctx, b.Sequence, b.LastID, b.Time, b.FirstEnd, b.Epoch, b.Outages)
		if err != nil {
			return err
		}
		if n, err := result.RowsAffected(); err != nil || n != 1 {
			return errors.Join(err, w.deposed(ctx, store.Unsigned(b.Epoch)))
		}
		for i := range b.Allocations {
			if err := w.writeAllocation(ctx, &b.Allocations[i]); err != nil {
				return err
			}
		}
		if err := w.writeKeyed(ctx, b); err != nil {
			return err
		}
		if err := w.writeLaunches(ctx, b); err != nil {
			return err
		}
		w.written += pages(b)
		return nil
	})
}

// The pages that a row may write to the log: for an allocation one of its table, two of its
// indexes, and one for the neighbors that take the overflow. A large payload has pages of its own
// beyond the first.
const (
	pageSize   = 4096
	pagesOfRow = 4
)

// pages is an upper estimate of the pages that a batch writes to the log.
func pages(b *store.Rows) int {
	n := 1 + pagesOfRow*len(b.Allocations) // and meta
	for i := range b.Allocations {
		n += len(b.Allocations[i].Payload) / pageSize
	}
	for _, rows := range [][]store.KeyedRow{b.Hosts, b.Quotas, b.Providers, b.Refusals} {
		for i := range rows {
			n += pagesOfRow + len(rows[i].Payload)/pageSize
		}
	}
	for i := range b.Launches {
		n += pagesOfRow + len(b.Launches[i].Payload)/pageSize
	}
	return n + pagesOfRow*(len(b.LaunchesGone)+len(b.HostsGone)+len(b.QuotasGone)+len(b.ProvidersGone)+len(b.RefusalsGone))
}

// deposed returns the error if the row of meta has another epoch.
func (w *writer) deposed(ctx context.Context, epoch uint64) error {
	meta, err := readMeta(ctx, w.conn)
	if err != nil {
		return err
	}
	return &store.DeposedError{Epoch: epoch, Stored: meta.Epoch}
}

func (w *writer) writeAllocation(ctx context.Context, row *store.AllocationRow) error {
	args := [...]any{
		row.ID, int64(row.State), row.Ended, row.HostID, row.Caller, row.RequestID, row.RequestHash, int64(row.Forget), row.Payload,
	}
	statement := w.putAllocation
	if row.Ended != 0 {
		statement = w.endAllocation
	}
	result, err := statement.ExecContext(ctx, args[:]...)
	if err != nil {
		return err
	}
	if n, err := result.RowsAffected(); err != nil || n == 1 {
		return err
	}
	_, err = w.moveAllocation.ExecContext(ctx, args[:]...)
	return err
}

// writeKeyed writes hosts, rules, providers and refusals.
func (w *writer) writeKeyed(ctx context.Context, b *store.Rows) error {
	for _, table := range []struct {
		remove, put *sql.Stmt
		gone        []string
		rows        []store.KeyedRow
	}{
		{w.removeHost, w.putHost, b.HostsGone, b.Hosts},
		{w.removeQuota, w.putQuota, b.QuotasGone, b.Quotas},
		{w.removeProvider, w.putProvider, b.ProvidersGone, b.Providers},
		{w.removeRefusal, w.putRefusal, b.RefusalsGone, b.Refusals},
	} {
		for _, key := range table.gone {
			if _, err := table.remove.ExecContext(ctx, key); err != nil {
				return err
			}
		}
		for _, row := range table.rows {
			if _, err := table.put.ExecContext(ctx, row.Key, row.Payload); err != nil {
				return err
			}
		}
	}
	return nil
}

// overwrite switches whether SQLite writes zeros over deleted data: commands of launches must not
// stay in free pages. Only commits with rows of launches pay for it.
func (w *writer) overwrite(ctx context.Context, on bool) error {
	if w.overwrites == on {
		return nil
	}
	if _, err := w.conn.ExecContext(ctx, fmt.Sprintf("PRAGMA secure_delete = %t", on)); err != nil {
		return err
	}
	w.overwrites = on
	return nil
}

// writeLaunches writes the rows of launches.
func (w *writer) writeLaunches(ctx context.Context, b *store.Rows) error {
	for _, row := range b.Launches {
		if _, err := w.putLaunch.ExecContext(ctx, row.ID, row.Payload); err != nil {
			return err
		}
	}
	for _, id := range b.LaunchesGone {
		if _, err := w.removeLaunch.ExecContext(ctx, id); err != nil {
			return err
		}
	}
	return nil
}

// deletedAtOnce is how many rows are deleted, with their entries in the index of the history, while
// commits wait: some 5 ms.
const deletedAtOnce = 100

// Delete implements store.Store.
func (s *Store) Delete(ctx context.Context, ended []store.Position) (int, error) {
	deleted := 0
	for part := range slices.Chunk(ended, deletedAtOnce) {
		n := 0
		taskEnded, err := s.do(ctx, func(ctx context.Context, w *writer) error {
			return w.transaction(ctx, func() error {
				one, err := w.delete(ctx, part)
				n = one
				return err
			})
		})
		if err != nil || !taskEnded {
			return deleted, fmt.Errorf("store: deleting from the history: %w", classify(err))
		}
		deleted += n
	}
	return deleted, nil
}

// delete deletes rows and their entries, and returns the number of rows.
func (w *writer) delete(ctx context.Context, ended []store.Position) (n int, err error) {
	var entries []store.IndexEntry
	for _, at := range ended {
		var payload []byte
		err := w.deleteEnded.QueryRowContext(ctx, store.Signed(uint64(at.ID)), int64(at.Ended)).Scan(&payload)
		if errors.Is(err, sql.ErrNoRows) {
			continue
		}
		if err != nil {
			return 0, err
		}
		n++
		entries = store.IndexEntries(entries, at, payload)
	}
	w.written += pagesOfRow * n
	slices.SortFunc(entries, store.IndexEntry.Compare)
	return n, w.changeEntries(ctx, deleteEntrySQL, entries)
}
