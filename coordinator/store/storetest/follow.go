package storetest

import (
	"cmp"
	"context"
	"slices"
	"strconv"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/store"
)

// memoryChange is the record of a commit.
type memoryChange struct {
	mark   store.Mark
	before uint64 // the sequence before it; if it is that of mark, the changes are unknown
	keys   store.ChangedKeys
}

// mostMemoryChanges bounds the records: so few that readers sometimes come too late.
const mostMemoryChanges = 150

// mark names the present state.
func (m *Memory) mark() store.Mark {
	return store.Mark{Sequence: m.meta.Sequence, Leadership: strconv.FormatUint(m.leadership, 10)}
}

// beginChanges adds a record of the initial state of a leadership, if there is none.
func (m *Memory) beginChanges() {
	if n := len(m.changes); n == 0 || m.changes[n-1].mark.Sequence != m.meta.Sequence {
		m.changes = append(m.changes, memoryChange{mark: m.mark(), before: m.meta.Sequence})
	}
}

// recordChange records the changes of a commit that was made at the sequence before.
func (m *Memory) recordChange(before uint64, batch *store.Batch) {
	c := memoryChange{mark: m.mark(), before: before}
	for i := range batch.Transitions {
		c.keys.Allocations = append(c.keys.Allocations, batch.Transitions[i].ID)
	}
	for i := range batch.Hosts {
		c.keys.Hosts = append(c.keys.Hosts, batch.Hosts[i].ID)
	}
	c.keys.Hosts = append(c.keys.Hosts, batch.HostsRemoved...)
	c.keys.Rest = len(batch.Quotas)+len(batch.QuotasRemoved)+len(batch.Providers)+len(batch.ProvidersRemoved) > 0
	switch {
	case batch.Revision > before:
		if len(c.keys.Allocations)+len(c.keys.Hosts) > store.MostRecorded {
			c.before, c.keys = c.mark.Sequence, store.ChangedKeys{}
		}
		m.changes = append(m.changes, c)
		m.changes = m.changes[max(0, len(m.changes)-mostMemoryChanges):]
	case len(c.keys.Allocations)+len(c.keys.Hosts) > 0 || c.keys.Rest:
		m.changes = nil
	}
}

// since returns the keys that have changed since a mark; proven is false if records are missing.
func (m *Memory) since(mark store.Mark) (keys store.ChangedKeys, proven bool) {
	i := slices.IndexFunc(m.changes, func(c memoryChange) bool { return c.mark == mark })
	if i < 0 {
		return keys, false
	}
	at := mark.Sequence
	for _, c := range m.changes[i+1:] {
		if c.before != at {
			return keys, false
		}
		at = c.mark.Sequence
		keys.Allocations, keys.Hosts = append(keys.Allocations, c.keys.Allocations...), append(keys.Hosts, c.keys.Hosts...)
		keys.Rest = keys.Rest || c.keys.Rest
	}
	return keys, at == m.meta.Sequence
}

// Follow implements store.Store.
func (s *memoryStore) Follow(ctx context.Context, since store.Mark) (store.Followed, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.usable(ctx); err != nil {
		return store.Followed{}, err
	}
	f := store.Followed{Meta: s.meta, Rows: s.noRows()}
	n := len(s.changes)
	if n == 0 || s.changes[n-1].mark.Sequence != s.meta.Sequence {
		return f, nil
	}
	f.Mark = s.changes[n-1].mark
	keys, proven := s.since(since)
	if !proven {
		all, err := s.load(ledger.MaxInstant)
		f.Rows, f.Whole, f.Rest = all, true, true
		for _, row := range s.allocations {
			f.LastEnd = max(f.LastEnd, row.ended)
		}
		return f, err
	}
	err := s.loadChanged(&f, &keys)
	if f.Rest = keys.Rest; f.Rest && err == nil {
		err = s.loadRest(&f.Rows)
	}
	f.Rows = sorted(f.Rows)
	return f, err
}

// CatchUp implements store.Store.
func (s *memoryStore) CatchUp(ctx context.Context, since store.Mark) (store.Followed, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.usable(ctx); err != nil {
		return store.Followed{}, err
	}
	keys, proven := s.since(since)
	if !proven {
		return store.Followed{}, store.ErrGap
	}
	f := store.Followed{Meta: s.meta, Mark: s.changes[len(s.changes)-1].mark, Rows: s.noRows(), Rest: true}
	err := s.loadChanged(&f, &keys)
	if err == nil {
		err = s.loadRest(&f.Rows)
	}
	f.Rows = sorted(f.Rows)
	return f, err
}

// Totals implements store.Store.
func (s *memoryStore) Totals(ctx context.Context) (store.Totals, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.usable(ctx); err != nil {
		return store.Totals{}, err
	}
	t := store.Totals{Epoch: s.meta.Epoch, Hosts: len(s.hosts)}
	for id, row := range s.allocations {
		if row.ended == 0 {
			t.Live++
			t.IDs += store.SumOfIDs(id)
		}
	}
	return t, nil
}

// loadChanged reads the hosts and live allocations with these keys, and names those that are gone.
func (s *memoryStore) loadChanged(f *store.Followed, keys *store.ChangedKeys) error {
	for _, id := range distinct(keys.Allocations) {
		row, there := s.allocations[id]
		if !there || row.ended != 0 {
			f.Ended = append(f.Ended, id)
			continue
		}
		a, err := row.decode()
		if err != nil {
			return err
		}
		f.Rows.Allocations = append(f.Rows.Allocations, a)
	}
	for _, id := range distinct(keys.Hosts) {
		payload, there := s.hosts[id]
		if !there {
			f.HostsRemoved = append(f.HostsRemoved, id)
			continue
		}
		h, err := store.DecodeHost(id, payload)
		if err != nil {
			return err
		}
		f.Rows.Hosts = append(f.Rows.Hosts, h)
	}
	return nil
}

// noRows returns a snapshot without rows.
func (m *Memory) noRows() ledger.Snapshot {
	return ledger.Snapshot{Revision: m.meta.Sequence, LastID: m.meta.LastID, Time: m.meta.Time, Outages: m.meta.Outages}
}

// loadRest reads all rules, providers and refusals.
func (m *Memory) loadRest(to *ledger.Snapshot) error {
	for selector, payload := range m.quotas {
		q, err := store.DecodeQuota(selector, payload)
		if err != nil {
			return err
		}
		to.Quotas = append(to.Quotas, q)
	}
	for name, payload := range m.providers {
		p, err := store.DecodeProvider(name, payload)
		if err != nil {
			return err
		}
		to.Providers = append(to.Providers, p)
	}
	for id, payload := range m.refusals {
		if r, err := store.DecodeRefusal(id, payload); err == nil {
			to.Refusals = append(to.Refusals, r)
		}
	}
	return nil
}

// distinct returns the keys in order, each once.
func distinct[K cmp.Ordered](keys []K) []K {
	slices.Sort(keys)
	return slices.Compact(keys)
}
