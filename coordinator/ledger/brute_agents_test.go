package ledger_test

import (
	"cmp"
	"maps"
	"slices"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/label"
	"github.com/bursar/bursar/resource"
)

// nameOthers is a report of a host that names everything that waits or is on other hosts. It knows
// all values of it except one.
func (b *brute) nameOthers() {
	h := b.host()
	c := b.report(h, true)
	own := len(c.Engines)
	for _, id := range slices.Sorted(maps.Keys(b.live)) {
		grant := *b.live[id]
		if grant.State.Holds() && grant.HostID == h.id {
			continue
		}
		grant.Process.PID = 1
		switch b.random.IntN(5) {
		case 0:
			grant.Created--
		case 1:
			grant.Caller += "2"
		case 2:
			grant.RequestID += "2"
		case 3:
			grant.Labels = grant.Labels.With("more", "of it")
		case 4:
			grant.Requested.Vector = grant.Requested.WithMemory(grant.Requested.Memory() + 1)
		}
		c.Engines = append(c.Engines, ledger.EngineReport{ID: id, Grant: &grant})
	}
	before := b.ledger.Revision()
	result, err := b.ledger.Sync(b.now, c)
	must(b.t, err)
	if b.ledger.Revision() != before || result.NotTaken.Count != len(c.Engines)-own {
		b.t.Fatalf("seed %d: a host names %d that it does not have, %d are not taken in, and something changes: %t",
			b.seed, len(c.Engines)-own, result.NotTaken.Count, b.ledger.Revision() != before)
	}
}

// adopt is a report of a host that has an engine, or two, which the ledger does not know.
func (b *brute) adopt() {
	h := b.host()
	c := b.report(h, true)
	var fresh []ledger.ID
	for range 1 + b.random.IntN(2) {
		id := ledger.ID(1 + b.random.IntN(1000)) // far below those that the ledger gives out
		if b.live[id] != nil || b.adopted[id] {
			continue
		}
		r := resource.NewResource(b.vector().WithInstances(1), b.parts()...)
		c.Engines = append(c.Engines, ledger.EngineReport{ID: id, Grant: &ledger.Allocation{
			ID: id, Caller: bruteCallers[0], Labels: label.Of("user", "alice"), Requested: r, Entitled: r,
			Process: ledger.Process{PID: int32(id), StartTime: 1},
		}})
		fresh, b.adopted[id] = append(fresh, id), true
	}
	result, err := b.ledger.Sync(b.now, c)
	must(b.t, err)
	b.follow()
	for _, id := range fresh {
		a := b.live[id]
		if a == nil || a.State != ledger.Active || a.HostID != h.id || result.NotTaken.Count > 0 {
			b.t.Fatalf("seed %d: %s, which runs on %s, is not taken in: %+v", b.seed, id, h.id, a)
		}
	}
}

// overLimit reports whether an engine, which the ledger does not have yet, has more of some
// account than is left.
func (b *brute) overLimit(a *ledger.Allocation) bool {
	for _, p := range append(b.purses(a), b.purseOf(b.hosts[a.HostID])) {
		if len(b.lacks(p, p.has(a))) > 0 {
			return true
		}
	}
	return false
}

// veto is a report of a host that does not find the memory of a grant, or of one that is over.
func (b *brute) veto() {
	a := b.pick(ledger.Reserved)
	if a == nil {
		return
	}
	h := b.hosts[a.HostID]
	c := b.report(h, false)
	v := ledger.Veto{ID: a.ID, Revision: a.Revision, Headroom: b.upTo(4)}
	late := b.random.IntN(4) == 0
	if late {
		v.Revision = a.GrantRevision - 1
	} else {
		b.asks = a.ID
		left := v.Headroom
		for id, other := range b.live {
			if id != a.ID && other.State.Holds() && other.HostID == h.id {
				left += other.Entitled.Memory()
			}
		}
		h.available = min(h.available, left)
	}
	c.Vetoes = []ledger.Veto{v}
	before := b.ledger.Revision()
	_, err := b.ledger.Sync(b.now, c)
	must(b.t, err)
	if late && b.ledger.Revision() != before {
		b.t.Fatalf("seed %d: the veto of an earlier grant of %s has an effect", b.seed, a.ID)
	}
	waits := a.WaitDeadline > b.now
	b.follow()
	if now := b.live[a.ID]; !late && (waits == (now == nil) || now != nil && now.GrantRevision <= v.Revision && now.State.Holds()) {
		b.t.Fatalf("seed %d: %s, which may wait: %t, is vetoed, and then %+v", b.seed, a.ID, waits, now)
	}
}

// rows are what the store has.
type rows struct {
	revision  uint64
	last      ledger.ID
	time      ledger.Instant
	hosts     map[string]ledger.HostRecord
	quotas    map[string]ledger.Quota
	providers map[ledger.ClusterName]ledger.ProviderRecord
	live      map[ledger.ID]ledger.Allocation
	ended     map[ledger.ID]ledger.Remembered
}

func newRows() rows {
	return rows{
		hosts: make(map[string]ledger.HostRecord), quotas: make(map[string]ledger.Quota),
		providers: make(map[ledger.ClusterName]ledger.ProviderRecord),
		live:      make(map[ledger.ID]ledger.Allocation), ended: make(map[ledger.ID]ledger.Remembered),
	}
}

func (r *rows) apply(c *ledger.Changes) {
	r.revision, r.last, r.time = c.Revision, c.LastID, c.Time
	for _, h := range c.Hosts {
		r.hosts[h.ID] = h
	}
	for _, text := range c.QuotasRemoved {
		delete(r.quotas, text)
	}
	for _, q := range c.Quotas {
		r.quotas[q.Selector.String()] = q
	}
	for _, p := range c.Providers {
		r.providers[p.ClusterName] = p
	}
	for _, a := range c.Transitions {
		if a.State.Live() {
			r.live[a.ID] = a
			delete(r.ended, a.ID)
			continue
		}
		delete(r.live, a.ID)
		if a.RequestID != "" && !a.Forget {
			r.ended[a.ID] = ledger.Remembered{Caller: a.Caller, RequestID: a.RequestID, RequestHash: a.RequestHash, ID: a.ID, Ended: a.Ended}
		}
	}
}

// restart replaces the ledger by a new one from the store's rows. Waiting requests have no
// callers, and the cluster and all hosts report again.
func (b *brute) restart() {
	b.ledger = ledger.New(ledger.Config{}, newPlainPlacer())
	s := &b.stored
	must(b.t, b.ledger.Restore(b.now, ledger.Snapshot{
		Revision: s.revision, LastID: s.last, Time: s.time, Allocations: slices.Collect(maps.Values(s.live)),
		Hosts: slices.Collect(maps.Values(s.hosts)), Quotas: slices.Collect(maps.Values(s.quotas)),
		Providers: slices.Collect(maps.Values(s.providers)), Remembered: slices.Collect(maps.Values(s.ended)),
	}))
	clear(b.line)
	for id, a := range b.live {
		switch {
		case a.State == ledger.Waiting:
			b.alone[id] = b.now
		case a.Expires != 0: // its holder may have been cut off as well
			row, grace := s.live[id], b.ledger.Interval()
			if a.State == ledger.Active {
				grace = max(grace, cmp.Or(a.Lease, ledger.DefaultLease))
			}
			a.Expires = max(row.Expires, min(b.now.Add(grace), row.Expires.Add(3*grace)))
		}
		if is, there := b.ledger.Get(id); !there || is.State != a.State || is.HostID != a.HostID || is.Revision != a.Revision ||
			!is.Entitled.Equal(a.Entitled) {
			b.t.Fatalf("seed %d: %s was %+v, and is %+v after a restart", b.seed, id, *a, is)
		}
	}
	b.cluster.Asked = b.now
	must(b.t, b.ledger.ReportCluster(b.now, b.cluster))
	b.follow()
	for _, id := range slices.Sorted(maps.Keys(b.hosts)) {
		b.hosts[id].sequence = 0
		b.sample(b.hosts[id])
	}
}
