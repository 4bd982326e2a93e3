package storetest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/seal"
	"github.com/bursar/bursar/coordinator/store"
)

// Memory is a place for stores in memory, with rows encoded as in other stores. Open opens a store
// there; several may be open. A new store sees the commits of earlier ones.
type Memory struct {
	mu          sync.Mutex // guards all fields below
	meta        store.Meta
	allocations map[ledger.ID]memoryRow
	hosts       map[string][]byte
	quotas      map[string][]byte
	providers   map[string][]byte
	refusals    map[string][]byte
	launches    map[ledger.ID][]byte
	leadership  uint64 // the number of the last Lead
	changes     []memoryChange
	sealKeys    seal.Keys // the same for the same id, so that tests repeat
	turns       uint64    // the number of Leads, including those that a restore has undone
}

// memoryRow is an allocation's row: its payload and its columns.
type memoryRow struct {
	id        ledger.ID
	state     int16
	ended     ledger.Instant // zero: live
	caller    string
	hostID    string
	requestID string
	forget    bool
	payload   []byte
}

func (r *memoryRow) position() store.Position { return store.Position{Ended: r.ended, ID: r.id} }

// byID orders ids like rows.
func byID(a, b ledger.ID) int { return store.Position{ID: a}.Compare(store.Position{ID: b}) }

func (r *memoryRow) decode() (ledger.Allocation, error) {
	return store.DecodeAllocation(r.id, r.forget, r.payload)
}

// NewMemory returns a place without rows. The id is its stores' identity.
func NewMemory(id string) *Memory {
	return &Memory{
		meta: store.Meta{StoreID: id, Schema: 1}, allocations: make(map[ledger.ID]memoryRow),
		hosts: make(map[string][]byte), quotas: make(map[string][]byte), providers: make(map[string][]byte),
		refusals: make(map[string][]byte), launches: make(map[ledger.ID][]byte), sealKeys: sealKeysOf(id),
	}
}

// Open opens a store. It may be called concurrently.
func (m *Memory) Open() store.Store { return &memoryStore{Memory: m} }

// memoryStore is one opened store.
type memoryStore struct {
	*Memory

	led    uint64 // the epoch of its last Lead; guarded by Memory.mu, like the others
	turn   uint64 // the number of that Lead
	leads  bool   // no error has ended that leadership
	at     uint64 // the sequence after its last Lead or Commit
	closed bool
}

func (s *memoryStore) Lead(ctx context.Context, atLeast uint64) (store.Meta, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.usable(ctx); err != nil {
		return store.Meta{}, err
	}
	if s.meta.Epoch >= math.MaxInt64 || atLeast > math.MaxInt64 {
		return store.Meta{}, fmt.Errorf("epoch %d, at least %d: want less than 2^63", s.meta.Epoch, atLeast)
	}
	s.meta.Epoch = max(s.meta.Epoch+1, atLeast)
	s.turns++
	s.leadership = s.turns
	s.beginChanges()
	s.led, s.turn, s.leads, s.at = s.meta.Epoch, s.leadership, true, s.meta.Sequence
	led := s.meta
	led.SealKeys = s.sealKeys
	return led, nil
}

func (s *memoryStore) usable(ctx context.Context) error {
	if s.closed {
		return store.ErrClosed
	}
	return ctx.Err()
}

func (s *memoryStore) Load(ctx context.Context, epoch uint64, rememberSince time.Time, take store.Take) (ledger.Snapshot, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.usable(ctx); err != nil {
		return ledger.Snapshot{}, err
	}
	if epoch != s.meta.Epoch {
		return ledger.Snapshot{}, &store.DeposedError{Epoch: epoch, Stored: s.meta.Epoch}
	}
	snapshot, err := s.load(ledger.At(rememberSince))
	if take == nil || err != nil {
		return snapshot, err
	}
	rows := snapshot.Allocations
	snapshot.Allocations = nil
	err = take(&snapshot, nil)
	for len(rows) > 0 && err == nil {
		n := min(len(rows), 3)
		if err = take(&snapshot, rows[:n]); err == nil {
			err = ctx.Err()
		}
		rows = rows[n:]
	}
	return snapshot, err
}

// load reads everything, and the request ids of allocations that ended at or after a time.
func (s *memoryStore) load(rememberSince ledger.Instant) (ledger.Snapshot, error) {
	snapshot := s.noRows()
	for _, row := range s.allocations {
		a, err := row.decode()
		switch {
		case err != nil:
			return ledger.Snapshot{}, err
		case row.ended == 0:
			snapshot.Allocations = append(snapshot.Allocations, a)
		case row.ended >= rememberSince && row.requestID != "" && !row.forget:
			snapshot.Remembered = append(snapshot.Remembered, row.remembered(a.RequestHash))
		}
	}
	for id, payload := range s.hosts {
		h, err := store.DecodeHost(id, payload)
		if err != nil {
			return ledger.Snapshot{}, err
		}
		snapshot.Hosts = append(snapshot.Hosts, h)
	}
	if err := s.loadRest(&snapshot); err != nil {
		return ledger.Snapshot{}, err
	}
	// the same for the same rows, so that simulations repeat
	return sorted(snapshot), nil
}

func (s *memoryStore) Commit(ctx context.Context, batch store.Batch) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.commit(ctx, &batch)
	if err != nil && batch.Epoch == s.led {
		s.leads = false
	}
	return err
}

func (s *memoryStore) commit(ctx context.Context, batch *store.Batch) error {
	if err := s.usable(ctx); err != nil {
		return err
	}
	if batch.Epoch != s.meta.Epoch || batch.Epoch != s.led || !s.leads {
		return &store.DeposedError{Epoch: batch.Epoch, Stored: s.meta.Epoch}
	}
	if s.leadership != s.turn || s.meta.Sequence != s.at {
		return fmt.Errorf("%w: the store was put back: it is at sequence %d, and epoch %d left it at %d", store.ErrDeposed, s.meta.Sequence, batch.Epoch, s.at)
	}
	if batch.Empty() {
		return nil
	}
	// All steps that can fail come before all changes.
	rows := make([]memoryRow, len(batch.Transitions))
	for i := range batch.Transitions {
		a := &batch.Transitions[i]
		payload, err := store.AppendAllocation(nil, a)
		if err != nil {
			return err
		}
		rows[i] = memoryRow{a.ID, store.StateOf(a), store.EndOf(a), store.CallerOf(a), a.HostID, a.RequestID, a.Forget, payload}
	}
	var errs [4]error
	var hosts, quotas, providers, refusals map[string][]byte
	hosts, errs[0] = encoded(batch.Hosts, store.EncodeHost, func(h *ledger.HostRecord) string { return h.ID })
	quotas, errs[1] = encoded(batch.Quotas, store.EncodeQuota, func(q *ledger.Quota) string { return q.Selector.String() })
	providers, errs[2] = encoded(batch.Providers, store.EncodeProvider, func(p *ledger.ProviderRecord) string { return p.String() })
	refusals, errs[3] = encoded(batch.Refusals, store.EncodeRefusal, func(r *ledger.Refusal) string { return r.ID() })
	if err := errors.Join(errs[:]...); err != nil {
		return err
	}
	for _, row := range rows {
		s.allocations[row.id] = row
	}
	for _, id := range batch.HostsRemoved {
		delete(s.hosts, id)
	}
	maps.Copy(s.hosts, hosts)
	for _, selector := range batch.QuotasRemoved {
		delete(s.quotas, selector)
	}
	maps.Copy(s.quotas, quotas)
	for _, name := range batch.ProvidersRemoved {
		delete(s.providers, name.String())
	}
	maps.Copy(s.providers, providers)
	for _, id := range batch.RefusalsRemoved {
		delete(s.refusals, id)
	}
	maps.Copy(s.refusals, refusals)
	s.commitLaunches(batch)
	before := s.meta.Sequence
	s.meta.Sequence, s.meta.LastID, s.meta.Time, s.meta.Outages = batch.Revision, batch.LastID, batch.Time, cmp.Or(batch.Outages, s.meta.Outages)
	s.recordChange(before, batch)
	s.at = batch.Revision
	return nil
}

func (s *memoryStore) Get(ctx context.Context, id ledger.ID) (ledger.Allocation, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.usable(ctx); err != nil {
		return ledger.Allocation{}, err
	}
	row, found := s.allocations[id]
	if !found {
		return ledger.Allocation{}, store.ErrNotFound
	}
	return row.decode()
}

func (s *memoryStore) GetByRequest(ctx context.Context, caller, requestID string) (ledger.Allocation, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.usable(ctx); err != nil {
		return ledger.Allocation{}, err
	}
	latest := s.latest(caller, requestID)
	if latest == nil {
		return ledger.Allocation{}, store.ErrNotFound
	}
	return latest.decode()
}

func (s *memoryStore) Remembered(
	ctx context.Context, before store.Position, since ledger.Instant, limit int,
) (page []ledger.Remembered, next store.Position, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.usable(ctx); err != nil {
		return nil, next, err
	}
	for _, row := range slices.Backward(s.ended()) {
		switch {
		case before != (store.Position{}) && row.position().Compare(before) >= 0, row.forget, row.requestID == "":
			continue
		case row.ended < since:
			return page, store.Position{}, nil
		case len(page) == limit:
			return page, next, nil
		}
		a, err := row.decode()
		if err != nil {
			return nil, next, err
		}
		page = append(page, row.remembered(a.RequestHash))
		next = row.position()
	}
	return page, store.Position{}, nil
}

func (r *memoryRow) remembered(hash uint64) ledger.Remembered {
	return ledger.Remembered{Caller: r.caller, RequestID: r.requestID, RequestHash: hash, ID: r.id, Ended: r.ended}
}

func (s *memoryStore) RememberedOf(ctx context.Context, caller, requestID string) (ledger.Remembered, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.usable(ctx); err != nil {
		return ledger.Remembered{}, err
	}
	latest := s.latest(caller, requestID)
	if latest == nil || latest.ended == 0 {
		return ledger.Remembered{}, store.ErrNotFound
	}
	a, err := latest.decode()
	return latest.remembered(a.RequestHash), err
}

// latest returns the latest row of a request id; nil if there is none.
func (m *Memory) latest(caller, requestID string) (latest *memoryRow) {
	for _, row := range m.allocations {
		if requestID == "" || row.requestID != requestID || row.caller != caller || row.forget {
			continue
		}
		if latest == nil || byID(row.id, latest.id) > 0 {
			latest = &row
		}
	}
	return latest
}

func (s *memoryStore) History(ctx context.Context, query store.HistoryQuery) (page []ledger.Allocation, next string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.usable(ctx); err != nil {
		return nil, "", err
	}
	after := store.Position{Ended: math.MaxInt64}
	if query.PageToken != "" {
		if after, err = store.ParseToken(query.PageToken); err != nil {
			return nil, "", err
		}
	}
	rows := s.ended()
	slices.Reverse(rows)
	for _, row := range rows {
		at := row.position()
		if at.Compare(after) >= 0 {
			continue
		}
		if len(page) == query.Size() {
			return page, after.Token(), nil
		}
		after = at
		a, err := row.decode()
		if err != nil {
			return nil, "", err
		}
		if query.Matches(&a) {
			page = append(page, a)
		}
	}
	return page, "", nil
}

// ended returns the rows of the history, the oldest first.
func (m *Memory) ended() []memoryRow {
	var rows []memoryRow
	for _, row := range m.allocations {
		if row.ended != 0 {
			rows = append(rows, row)
		}
	}
	slices.SortFunc(rows, func(a, b memoryRow) int { return a.position().Compare(b.position()) })
	return rows
}

func (s *memoryStore) Ends(ctx context.Context, after store.Position, limit int) ([]store.End, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.usable(ctx); err != nil {
		return nil, err
	}
	var list []store.End
	for _, row := range s.ended() {
		if len(list) == limit {
			break
		}
		if row.position().Compare(after) > 0 {
			list = append(list, endOf(&row))
		}
	}
	return list, nil
}

// endOf returns the End of a row of the history.
func endOf(row *memoryRow) store.End {
	caller := row.caller
	if row.state&store.CountsOnHost != 0 {
		caller = store.OfHost + row.hostID
	}
	bytes := len(row.payload) + 2*(len(row.caller)+len(row.requestID)) + len(row.hostID) + store.RowOverhead
	end := store.End{Position: row.position(), Caller: caller, Bytes: int64(bytes)}
	end.Charge(row.payload)
	return end
}

func (s *memoryStore) Delete(ctx context.Context, ended []store.Position) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.usable(ctx); err != nil {
		return 0, err
	}
	deleted := 0
	for _, at := range ended {
		if row, found := s.allocations[at.ID]; found && row.ended != 0 && row.ended == at.Ended {
			delete(s.allocations, at.ID)
			deleted++
		}
	}
	return deleted, nil
}

// IndexHistory has nothing to do: a search visits all rows.
func (s *memoryStore) IndexHistory(ctx context.Context, epoch uint64, _ ledger.Instant, _ int) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.usable(ctx); err != nil {
		return 0, err
	}
	if epoch != s.led || !s.leads {
		return 0, &store.DeposedError{Epoch: epoch, Stored: s.meta.Epoch}
	}
	return 0, nil
}

// SweepIndex has nothing to do, like IndexHistory.
func (s *memoryStore) SweepIndex(ctx context.Context, after store.IndexEntry, _ ledger.Instant, _ int) (store.IndexEntry, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return after, true, s.usable(ctx)
}

func (s *memoryStore) Meta(ctx context.Context) (store.Meta, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.usable(ctx); err != nil {
		return store.Meta{}, err
	}
	return s.meta, nil
}

func (s *memoryStore) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	return nil
}
