package ledger

import (
	"cmp"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/bursar/bursar/resource"
)

// Filed is a ledger that a coordinator keeps ahead of a leadership: hosts, and allocations that
// hold something, stand in its tables already. Nothing is decided in it, and no time passes. It is
// changed by rows of the store, and becomes a ledger by Restore, with the Snapshot that names it.
// Then it is used up. After an error or a panic nobody may use it any more.
type Filed struct {
	ledger    *Ledger
	waiting   map[ID]Allocation // requests that wait: they are decided by Restore
	quotas    []Quota           // of every source
	providers []ProviderRecord
	last      ID // the highest of those that were filed
	// Whose lists of entries may not be in the order of their ids:
	hosts    map[*host]struct{}
	clusters map[*cluster]struct{}
}

// File files a snapshot in a new ledger. Its request ids, its times and its revision do not matter.
// The error is as that of Restore.
func File(cfg Config, s *Snapshot) (*Filed, error) {
	l := New(cfg, unplaced{})
	f := &Filed{
		ledger: l, waiting: make(map[ID]Allocation), quotas: inOrder(s.Quotas), providers: providersInOrder(s.Providers),
		hosts: make(map[*host]struct{}), clusters: make(map[*cluster]struct{}),
	}
	if err := l.fileRules(s); err != nil {
		return nil, err
	}
	for _, r := range hostsInOrder(s.Hosts) {
		f.putHost(r)
	}
	return f, f.Add(s.Allocations)
}

// Update applies the changes of the store: rows of hosts and of live allocations, and the ids of
// those that were removed or have ended. An error is about a row that Restore would refuse.
func (f *Filed) Update(changed *Snapshot, ended []ID, hostsRemoved []string) error {
	for _, r := range changed.Hosts {
		f.putHost(r)
	}
	for _, id := range ended {
		f.remove(id)
	}
	if err := f.Add(changed.Allocations); err != nil {
		return err
	}
	l := f.ledger
	for _, id := range hostsRemoved {
		l.dropExpected(id)
		if err := f.removeHost(id); err != nil {
			return err
		}
	}
	for _, r := range changed.Hosts {
		if r.Expected {
			if err := f.removeHost(r.ID); err != nil {
				return err
			}
		}
	}
	f.orderHosts()
	f.forgetChanges()
	return nil
}

// forgetChanges drops the tables' notes for waiting requests, for watchers and for the store.
func (f *Filed) forgetChanges() {
	l := f.ledger
	for _, q := range l.marked {
		q.marked = false
	}
	clear(l.marked)
	l.marked, l.freeing, l.changes, l.revision = l.marked[:0], nil, Changes{}, 0
}

// removeHost removes a host, if it is there.
func (f *Filed) removeHost(id string) error {
	h := f.ledger.hosts[id]
	if h == nil {
		return nil
	}
	if len(h.entries) > 0 {
		return unrestored(h.entries[0].ID, "no such host: %q", id)
	}
	delete(f.hosts, h)
	f.ledger.removeHost(h)
	return nil
}

// putHost files a row. A host that was removed, and is expected since then, is removed after the
// allocations.
func (f *Filed) putHost(r HostRecord) {
	l := f.ledger
	if r.Expected {
		l.addExpected(r)
		return
	}
	l.dropExpected(r.ID)
	h := l.hosts[r.ID]
	if h == nil {
		h = l.addHost(r)
	} else {
		if !h.Capacity.Equal(r.Capacity) || !h.Protected.Equal(r.Protected) {
			l.setCapacity(h, r.Capacity, r.Protected)
		}
		h.HostRecord = r
		l.updateMachine(h, false)
	}
	h.isReturning()
}

// Add files rows of live allocations, in place of those that are there with the same ids.
func (f *Filed) Add(rows []Allocation) error {
	for i := range rows {
		a := &rows[i]
		f.remove(a.ID)
		if a.State == Waiting {
			f.waiting[a.ID] = *a
			continue
		}
		e, err := f.ledger.file(a)
		if err != nil {
			return err
		}
		if a.ID < f.last {
			f.disorder(e)
		}
		f.last = max(f.last, a.ID)
	}
	return nil
}

// disorder notes that lists which an entry is put into, or taken out of, are not in the order of
// the ids any more.
func (f *Filed) disorder(e *entry) {
	f.hosts[e.host] = struct{}{}
	if e.external != nil {
		for i := range e.external.memberships {
			f.clusters[e.external.memberships[i].cluster] = struct{}{}
		}
	}
}

// remove takes an allocation out, if it is there, as if it had never been.
func (f *Filed) remove(id ID) {
	delete(f.waiting, id)
	l := f.ledger
	e := l.entry(id)
	if e == nil {
		return
	}
	f.disorder(e)
	l.unhold(e)
	l.countState(e, -1)
	l.countOverUse(e, -1)
	l.removeUsage(e)
	l.entries.Delete(e.ID)
	l.requests.drop(e.key, e.ID)
	l.unlink(e)
	l.recycle(e)
}

// EachID calls yield for the id of every live allocation. It reads no allocation: that takes longer
// than everything else that is done with an id.
func (f *Filed) EachID(yield func(ID)) {
	f.ledger.entries.Scan(func(id ID, _ *entry) bool {
		yield(id)
		return true
	})
	for id := range f.waiting {
		yield(id)
	}
}

// Each calls yield for every live allocation. It must not change them.
func (f *Filed) Each(yield func(*Allocation)) {
	f.ledger.entries.Scan(func(_ ID, e *entry) bool {
		yield(&e.Allocation)
		return true
	})
	for _, a := range f.waiting {
		yield(&a)
	}
}

// EachHost calls yield for every row of a host: those of the hosts, then those of expected ones. It
// must not change them.
func (f *Filed) EachHost(yield func(*HostRecord)) {
	for _, h := range f.ledger.hostOrder {
		yield(&h.HostRecord)
	}
	for _, x := range f.ledger.expected {
		yield(&x.HostRecord)
	}
}

// Len is the number of live allocations.
func (f *Filed) Len() int { return f.ledger.entries.Len() + len(f.waiting) }

// Rows copies the rows of live allocations and of hosts into a snapshot.
func (f *Filed) Rows(s *Snapshot) {
	s.Hosts, s.Allocations = nil, make([]Allocation, 0, f.Len())
	f.Each(func(a *Allocation) { s.Allocations = append(s.Allocations, *a) })
	f.EachHost(func(h *HostRecord) { s.Hosts = append(s.Hosts, *h) })
	s.Hosts = hostsInOrder(s.Hosts)
}

// Suits reports whether it was filed by the rules and the providers of a snapshot. If not, Restore
// needs another ledger, and the Rows.
func (f *Filed) Suits(s *Snapshot) bool {
	return reflect.DeepEqual(f.quotas, inOrder(s.Quotas)) && reflect.DeepEqual(f.providers, providersInOrder(s.Providers))
}

func inOrder(quotas []Quota) []Quota {
	return sorted(quotas, func(a, b Quota) int {
		return cmp.Or(strings.Compare(a.Source, b.Source), strings.Compare(a.Selector.String(), b.Selector.String()))
	})
}

func hostsInOrder(hosts []HostRecord) []HostRecord {
	return sorted(hosts, func(a, b HostRecord) int { return strings.Compare(a.ID, b.ID) })
}

func providersInOrder(providers []ProviderRecord) []ProviderRecord {
	return sorted(providers, func(a, b ProviderRecord) int { return a.Compare(b.ClusterName) })
}

// Ledger is the ledger to call Restore of, with a new placer.
func (f *Filed) Ledger(placer Placer) *Ledger {
	f.ledger.placer = placer
	return f.ledger
}

// settle makes the tables those that Restore would have made of the rows.
func (f *Filed) settle() {
	l := f.ledger
	f.forgetChanges()
	for _, c := range l.clusters {
		if c.configured {
			c.since = l.now
		}
	}
	f.orderHosts()
	f.orderClusters()
	l.placeHosts()
}

// orderHosts puts the entries of hosts into the order of their ids.
func (f *Filed) orderHosts() {
	for h := range f.hosts {
		slices.SortFunc(h.entries, byID)
		for i, e := range h.entries {
			e.hostIndex = int32(i) // see mostEngines
		}
	}
	clear(f.hosts)
}

// orderClusters does the same in clusters. A cluster queue counts on the host of the first entry
// that has a part there. With many entries that takes some time: it is done once.
func (f *Filed) orderClusters() {
	for _, c := range f.ledger.clusters {
		if _, may := f.clusters[c]; !may {
			continue
		}
		c.order.Scan(func(q *clusterQueue) bool {
			q.clearCreator()
			return true
		})
		slices.SortFunc(c.members, byID)
		for i, e := range c.members {
			e.external.membership(c).index = i
			for _, t := range e.external.charges {
				if t.queue.cluster == c && t.queue.of == nil && t.queue.creator == nil {
					t.queue.setCreator(e.host)
				}
			}
		}
	}
}

// placeHosts gives the hosts the slots that they have in a ledger that was loaded, in the order of
// their ids, and puts them into the placer. Which one of equal hosts is chosen depends on that.
func (l *Ledger) placeHosts() {
	l.slots, l.freeSlots = slices.Clone(l.hostOrder), nil
	for i, h := range l.slots {
		h.slot = Slot(i)
		l.updatePlacer(h)
	}
}

// unplaced stands for a placer as long as nothing is decided.
type unplaced struct{ Placer }

func (unplaced) Put(Slot, HostView)                          {}
func (unplaced) Book(Slot, resource.Vector, resource.Vector) {}
func (unplaced) Remove(Slot)                                 {}

func byID(a, b *entry) int { return cmp.Compare(a.ID, b.ID) }

// waiters are the rows of requests that wait, in the order of their ids.
func (f *Filed) waiters() []Allocation {
	rows := make([]Allocation, 0, len(f.waiting))
	for _, id := range slices.Sorted(maps.Keys(f.waiting)) {
		rows = append(rows, f.waiting[id])
	}
	return rows
}
