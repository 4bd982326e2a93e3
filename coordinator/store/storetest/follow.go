package storetest

import (
	"context"
	"slices"
	"strconv"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/store"
)

// memoryChange is the record of a commit.
type memoryChange struct {
	mark   store.Mark
	before uint64 // the sequence that it has found; that of the mark: not known what it has changed
	keys   store.ChangedKeys
}

// mostMemoryChanges is how many are kept: so few that readers often come too late.
const mostMemoryChanges = 40

// mark names the present state.
func (m *Memory) mark() store.Mark {
	return store.Mark{Sequence: m.meta.Sequence, Leadership: strconv.FormatUint(m.leadership, 10)}
}

// beginChanges names the state that a leadership begins with, if nothing does.
func (m *Memory) beginChanges() {
	if n := len(m.changes); n == 0 || m.changes[n-1].mark.Sequence != m.meta.Sequence {
		m.changes = append(m.changes, memoryChange{mark: m.mark(), before: m.meta.Sequence})
	}
}

// recordChange records what a commit changes that has found a sequence.
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
		m.changes = append(m.changes, c)
		m.changes = m.changes[max(0, len(m.changes)-mostMemoryChanges):]
	case len(c.keys.Allocations)+len(c.keys.Hosts) > 0 || c.keys.Rest:
		m.changes = nil
	}
}

// since are the keys that have changed since a mark; false: not all that has is recorded.
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
	f := store.Followed{Meta: s.meta}
	if n := len(s.changes); n > 0 && s.changes[n-1].mark.Sequence == s.meta.Sequence {
		f.Mark = s.changes[n-1].mark
	} else {
		return f, nil
	}
	all, err := s.load(ledger.MaxInstant)
	if err != nil {
		return store.Followed{}, err
	}
	keys, proven := s.since(since)
	if f.Rows, f.Rest = sorted(all), true; !proven {
		f.Whole = true
		return f, nil
	}
	s.onlyChanged(&f, &keys)
	if f.Rest = keys.Rest; !f.Rest {
		f.Rows.Quotas, f.Rows.Providers, f.Rows.Refusals = nil, nil, nil
	}
	return f, nil
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
	all, err := s.load(ledger.MaxInstant)
	if err != nil {
		return store.Followed{}, err
	}
	f := store.Followed{Meta: s.meta, Mark: s.changes[len(s.changes)-1].mark, Rows: sorted(all), Rest: true, Live: len(all.Allocations)}
	for i := range all.Allocations {
		f.Sum += store.SumOfIDs(all.Allocations[i].ID)
	}
	s.onlyChanged(&f, &keys)
	return f, nil
}

// onlyChanged takes out the hosts and live allocations that have not changed, and adds what is
// gone.
func (s *memoryStore) onlyChanged(f *store.Followed, keys *store.ChangedKeys) {
	f.Rows.Allocations = slices.DeleteFunc(f.Rows.Allocations, func(a ledger.Allocation) bool { return !slices.Contains(keys.Allocations, a.ID) })
	f.Rows.Hosts = slices.DeleteFunc(f.Rows.Hosts, func(h ledger.HostRecord) bool { return !slices.Contains(keys.Hosts, h.ID) })
	for _, id := range keys.Allocations {
		if row, there := s.allocations[id]; (!there || row.ended != 0) && !slices.Contains(f.Ended, id) {
			f.Ended = append(f.Ended, id)
		}
	}
	for _, id := range keys.Hosts {
		if _, there := s.hosts[id]; !there && !slices.Contains(f.HostsRemoved, id) {
			f.HostsRemoved = append(f.HostsRemoved, id)
		}
	}
}
