package sqlite

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/bursar/bursar/coordinator/ledger"
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
	b, _ := s.batches.Get().(*encoded)
	if b == nil {
		b = &encoded{last: make(map[ledger.ID]int)}
	}
	if err := b.encode(batch); err != nil {
		return err
	}
	settled, err := s.do(ctx, func(ctx context.Context, w *writer) error { return w.write(ctx, b) })
	if !settled {
		return fmt.Errorf("%w: %w", store.ErrUnknownOutcome, err)
	}
	b.reset()
	s.batches.Put(b)
	var failed *commitError
	if errors.As(err, &failed) && !certain(failed) {
		return fmt.Errorf("%w: %w", store.ErrUnknownOutcome, err)
	}
	return err
}

// checkEpoch costs nothing: nobody else writes the epoch while this process holds the lock.
func (s *Store) checkEpoch(ctx context.Context, epoch uint64) error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed {
		return store.ErrClosed
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return s.writer.check(epoch)
}

// encoded is a batch as rows. It shares no memory with the batch that may change: a commit that was given up goes on when its
// caller has long used that for something else.
type encoded struct {
	epoch                  uint64
	sequence, lastID       int64
	allocations            []allocationRow
	hosts, quotas          []keyedRow
	hostsGone, selectsGone []string

	payloads []byte
	last     map[ledger.ID]int // the index of each id's last transition
}

type allocationRow struct {
	id                        ledger.ID
	state                     ledger.State
	end                       ledger.Instant
	hostID, caller, requestID string
	requestHash               uint64
	forget                    bool
	payload                   []byte
}

type keyedRow struct {
	key     string
	payload []byte
}

// mostKept is the payload memory that is kept for the next batch, in bytes; few batches are larger.
const mostKept = 1 << 20

func (b *encoded) reset() {
	clear(b.allocations)
	clear(b.last)
	b.allocations, b.hosts, b.quotas = b.allocations[:0], nil, nil
	if b.payloads = b.payloads[:0]; cap(b.payloads) > mostKept {
		b.payloads = nil
	}
}

// encode makes rows of a batch: of each id's transitions the last, in the order of ids, so that new rows append.
func (b *encoded) encode(batch *store.Batch) error {
	b.epoch, b.sequence, b.lastID = batch.Epoch, signed(batch.Revision), signed(uint64(batch.LastID))
	b.hostsGone, b.selectsGone = slices.Clone(batch.HostsRemoved), slices.Clone(batch.QuotasRemoved)
	for i := range batch.Transitions {
		b.last[batch.Transitions[i].ID] = i
	}
	for i := range batch.Transitions {
		a := &batch.Transitions[i]
		if b.last[a.ID] != i {
			continue
		}
		begin := len(b.payloads)
		var err error
		if b.payloads, err = store.AppendAllocation(b.payloads, a); err != nil {
			return err
		}
		b.allocations = append(b.allocations, allocationRow{
			id: a.ID, state: a.State, end: store.EndOf(a), hostID: a.HostID, caller: a.Caller, requestID: a.RequestID,
			requestHash: a.RequestHash, forget: a.Forget, payload: b.payloads[begin:],
		})
	}
	slices.SortFunc(b.allocations, func(x, y allocationRow) int { return cmp.Compare(x.id, y.id) })
	for i := range batch.Hosts {
		payload, err := store.EncodeHost(&batch.Hosts[i])
		if err != nil {
			return err
		}
		b.hosts = append(b.hosts, keyedRow{batch.Hosts[i].ID, payload})
	}
	for i := range batch.Quotas {
		payload, err := store.EncodeQuota(&batch.Quotas[i])
		if err != nil {
			return err
		}
		b.quotas = append(b.quotas, keyedRow{batch.Quotas[i].Selector.String(), payload})
	}
	return nil
}

// write makes a batch durable.
func (w *writer) write(ctx context.Context, b *encoded) error {
	if err := w.check(b.epoch); err != nil {
		return err
	}
	return w.transaction(ctx, func() error {
		result, err := w.fence.ExecContext(ctx, b.sequence, b.lastID, signed(b.epoch))
		if err != nil {
			return err
		}
		if n, err := result.RowsAffected(); err != nil || n != 1 {
			return errors.Join(err, w.deposed(ctx, b.epoch))
		}
		for i := range b.allocations {
			if err := w.writeAllocation(ctx, &b.allocations[i]); err != nil {
				return err
			}
		}
		if err := w.writeKeyed(ctx, b); err != nil {
			return err
		}
		// Per row a page of the table and two of its indexes, and one of meta: an estimate from above.
		w.written += 1 + 3*len(b.allocations) + len(b.hosts) + len(b.quotas)
		return nil
	})
}

// deposed says who may write, where a row of meta was found that is another's.
func (w *writer) deposed(ctx context.Context, epoch uint64) error {
	meta, err := readMeta(ctx, w.conn)
	if err != nil {
		return err
	}
	return &store.DeposedError{Epoch: epoch, Stored: meta.Epoch}
}

func (w *writer) writeAllocation(ctx context.Context, row *allocationRow) error {
	forget := int64(0)
	if row.forget {
		forget = 1
	}
	args := [...]any{
		signed(uint64(row.id)), int64(row.state), int64(row.end), row.hostID, row.caller, row.requestID, signed(row.requestHash), forget,
		row.payload,
	}
	statement := w.putAllocation
	if row.end != 0 {
		statement = w.endAllocation
	}
	result, err := statement.ExecContext(ctx, args[:]...)
	if err != nil {
		return err
	}
	if n, err := result.RowsAffected(); err != nil || n == 1 {
		return err
	}
	_, err = w.refileAllocation.ExecContext(ctx, args[:]...)
	return err
}

// writeKeyed writes hosts and rules. What is both removed and there was removed first.
func (w *writer) writeKeyed(ctx context.Context, b *encoded) error {
	for _, id := range b.hostsGone {
		if _, err := w.removeHost.ExecContext(ctx, id); err != nil {
			return err
		}
	}
	for _, row := range b.hosts {
		if _, err := w.putHost.ExecContext(ctx, row.key, row.payload); err != nil {
			return err
		}
	}
	for _, selector := range b.selectsGone {
		if _, err := w.removeQuota.ExecContext(ctx, selector); err != nil {
			return err
		}
	}
	for _, row := range b.quotas {
		if _, err := w.putQuota.ExecContext(ctx, row.key, row.payload); err != nil {
			return err
		}
	}
	return nil
}

// Prune implements store.Store.
func (s *Store) Prune(ctx context.Context, endedBefore time.Time, limit int) (int, error) {
	var pruned int64
	settled, err := s.do(ctx, func(ctx context.Context, w *writer) error {
		var n int64
		err := w.transaction(ctx, func() error {
			result, err := w.prune.ExecContext(ctx, int64(ledger.At(endedBefore)), limit)
			if err != nil {
				return err
			}
			n, err = result.RowsAffected()
			w.written += 3 * int(n)
			return err
		})
		pruned = n
		return err
	})
	if err != nil || !settled {
		return 0, fmt.Errorf("store: pruning: %w", classify(err))
	}
	return int(pruned), nil
}
