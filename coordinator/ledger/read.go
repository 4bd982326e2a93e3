package ledger

import (
	"maps"
	"slices"
	"sort"
	"strings"

	"github.com/bursar/bursar/resource"
)

// Get returns a live allocation.
func (l *Ledger) Get(id ID) (Allocation, bool) {
	if e := l.entry(id); e != nil {
		return l.shown(e), true
	}
	return Allocation{}, false
}

// shown is the allocation for readers. If it waits, its reason says what blocks it now. The row
// says what blocked it when it began to wait.
func (l *Ledger) shown(e *entry) Allocation {
	a := e.Allocation
	if e.class == nil || e.class.group == nil {
		return a
	}
	why := l.whyWaits(e.class)
	if strings.HasPrefix(a.Reason, ReasonVetoed) { // the veto matters more: it had a grant
		why = a.Reason + "; " + why
	}
	a.Reason = why
	return a
}

// ByRequest finds an allocation by its request id, live or remembered.
func (l *Ledger) ByRequest(caller, requestID string) (id ID, live, ok bool) {
	r := l.requests.find(keyOf(caller, requestID))
	return r.id, r.live(), r.id != 0
}

// Allocations yields the live allocations with ids above after, ascending. The pointer is valid
// during the call only.
func (l *Ledger) Allocations(after ID, yield func(*Allocation) bool) {
	var waiting Allocation // one variable for all: the pointer is valid during the call only
	l.entries.Ascend(after, func(id ID, e *entry) bool {
		if id == after {
			return true
		}
		a := &e.Allocation
		if a.State == Waiting {
			waiting = l.shown(e)
			a = &waiting
		}
		return yield(a)
	})
}

// HostAllocations yields what is reserved or active on a host, in no particular order. The pointer
// is valid during the call only.
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
	_, info.Unavailable = h.unschedulable()
	if h.stranger.at != 0 && l.now < h.stranger.at.Add(l.cfg.LostAfter) {
		info.Stranger = h.stranger.what
	}
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
	for _, s := range l.rules.scopes {
		for _, m := range s.masks {
			for _, r := range m.rules {
				list = append(list, r.Quota)
			}
		}
	}
	slices.SortFunc(list, func(a, b Quota) int { return strings.Compare(a.Selector.String(), b.Selector.String()) })
	return list
}

// QuotaAccounts yields the accounts of all rules with keys above after, ascending. Only the order
// of keys has a meaning.
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

// Counts is how many there are of each kind.
type Counts struct {
	Waiting, Reserved, Active                                int
	HostsHealthy, HostsSuspect, HostsLost, HostsReturning    int
	QuotaRules, QuotaAccounts, Remembered, WaitingForAnyHost int
	// Queues are those of all clusters, counted once for each partition.
	Queues int
	// OverUsers are engines in over-use, in one dimension or several.
	OverUsers     int
	OverUse       map[OverUseKind]int
	HostsRefusing int // of the healthy hosts
	CallersFull   int // see FullCallers
}

// Counts counts. Its cost grows with the number of hosts, scopes and clusters.
func (l *Ledger) Counts() Counts {
	c := Counts{
		Waiting: l.states[Waiting], Reserved: l.states[Reserved], Active: l.states[Active],
		QuotaRules: l.rules.count, Remembered: len(l.requests.ended), WaitingForAnyHost: l.anyHost.waiting,
		OverUsers: l.overUsers, OverUse: maps.Clone(l.overUse), CallersFull: len(l.full),
	}
	for _, h := range l.hosts {
		switch h.state {
		case Healthy:
			c.HostsHealthy++
			if h.refusal != "" || h.full != "" {
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
		c.Queues += len(external.queues)
	}
	return c
}
