package ledger

import (
	"maps"
	"slices"
	"sort"

	"github.com/bursar/bursar/resource"
)

// Get returns a live allocation.
func (l *Ledger) Get(id ID) (Allocation, bool) {
	if e := l.entries[id]; e != nil {
		return e.Allocation, true
	}
	return Allocation{}, false
}

// ByRequest finds an allocation by its request id, live or remembered.
func (l *Ledger) ByRequest(caller, requestID string) (id ID, live, ok bool) {
	r := l.requests.find(keyOf(caller, requestID))
	return r.id, r.live(), r.id != 0
}

// Allocations yields the live allocations with ids above after, ascending. The pointer is valid during the call only.
func (l *Ledger) Allocations(after ID, yield func(*Allocation) bool) {
	at := sort.Search(len(l.order), func(i int) bool { return l.order[i].id > after })
	for _, p := range l.order[at:] {
		if p.entry != nil && !yield(&p.entry.Allocation) {
			return
		}
	}
}

// HostAllocations yields what is reserved or active on a host, in no particular order. The pointer is valid during the
// call only.
func (l *Ledger) HostAllocations(hostID string, yield func(*Allocation) bool) {
	if h := l.hosts[hostID]; h != nil {
		for _, e := range h.entries {
			if !yield(&e.Allocation) {
				return
			}
		}
	}
}

// Host returns a host.
func (l *Ledger) Host(id string) (HostInfo, bool) {
	if h := l.hosts[id]; h != nil {
		return l.hostInfo(h), true
	}
	return HostInfo{}, false
}

// Hosts yields the hosts with ids above after, ascending.
func (l *Ledger) Hosts(after string, yield func(HostInfo) bool) {
	at := sort.Search(len(l.hostOrder), func(i int) bool { return l.hostOrder[i].ID > after })
	for _, h := range l.hostOrder[at:] {
		if !yield(l.hostInfo(h)) {
			return
		}
	}
}

func (l *Ledger) hostInfo(h *host) HostInfo {
	info := HostInfo{HostRecord: h.HostRecord, State: h.state, Account: h.account.info(), Sample: h.sample, LastSync: h.lastSync}
	_, info.Unavailable = h.open()
	if h.measured {
		headroom := h.headroom()
		info.Headroom = &headroom
		if free, limited := info.Account.Available.Get(resource.Memory); limited {
			info.Account.Available = info.Account.Available.WithMemory(max(0, min(free, headroom)))
		}
	}
	for _, e := range h.entries {
		if sum, err := info.Engines.Add(e.Measured); err == nil {
			info.Engines = sum
		}
	}
	return info
}

// Quotas returns all rules in force, by selector.
func (l *Ledger) Quotas() []Quota {
	list := make([]Quota, 0, l.rules.count)
	for _, quotas := range l.rules.sources {
		list = append(list, quotas...)
	}
	slices.SortFunc(list, func(a, b Quota) int {
		if a.Selector.String() < b.Selector.String() {
			return -1
		}
		return 1
	})
	return list
}

// QuotaAccounts yields the accounts of all rules with keys above after, ascending. A key means nothing but its order.
func (l *Ledger) QuotaAccounts(after string, yield func(key string, a AccountInfo) bool) {
	byKey := make(map[string]*account)
	for _, s := range l.rules.scopes {
		maps.Copy(byKey, s.accounts)
	}
	for _, key := range slices.Sorted(maps.Keys(byKey)) {
		if key > after && !yield(key, byKey[key].info()) {
			return
		}
	}
}

// Counts is how many of what there is.
type Counts struct {
	Waiting, Reserved, Active                                int
	HostsHealthy, HostsSuspect, HostsLost, HostsReturning    int
	QuotaRules, QuotaAccounts, Remembered, WaitingForAnyHost int
	Queues                                                   int // in one partition each, of all clusters
	OverUsers                                                int // engines in over-use, in one dimension or several
	OverUse                                                  map[OverUseKind]int
	HostsRefusing                                            int // of the healthy ones
}

// Counts counts. Its cost grows with the number of hosts, scopes and clusters.
func (l *Ledger) Counts() Counts {
	c := Counts{
		Waiting: l.states[Waiting], Reserved: l.states[Reserved], Active: l.states[Active],
		QuotaRules: l.rules.count, Remembered: l.requests.ended(), WaitingForAnyHost: l.anyHost.waiting,
		OverUsers: l.overUsers, OverUse: maps.Clone(l.overUse),
	}
	for _, h := range l.hosts {
		switch h.state {
		case Healthy:
			c.HostsHealthy++
			if h.refusal != "" {
				c.HostsRefusing++
			}
		case Suspect:
			c.HostsSuspect++
		case LostHost:
			c.HostsLost++
		case Returning:
			c.HostsReturning++
		}
	}
	for _, s := range l.rules.scopes {
		c.QuotaAccounts += len(s.accounts)
	}
	for _, external := range l.clusters {
		c.Queues += len(external.branches)
	}
	return c
}
