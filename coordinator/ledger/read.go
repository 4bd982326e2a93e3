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

// shown is the allocation for readers. If it waits, its reason says what blocks it now, and what it
// lacks. The row says what blocked it when it began to wait.
func (l *Ledger) shown(e *entry) Allocation {
	return e.forReaders(func(c *class) string { return l.describe(c, l.whyWaits(c)) })
}

// forReaders is the allocation with the reason that is given to it if it waits.
func (e *entry) forReaders(reason func(*class) string) Allocation {
	a := e.Allocation
	c := e.waitsIn()
	if c == nil || c.group == nil {
		return a
	}
	why := reason(c)
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
// during the call only. The reason of one that waits says what it waits for; Describe adds what it
// lacks.
func (l *Ledger) Allocations(after ID, yield func(*Allocation) bool) {
	var waiting Allocation // one variable for all: the pointer is valid during the call only
	l.entries.Ascend(after, func(id ID, e *entry) bool {
		if id == after {
			return true
		}
		a := &e.Allocation
		if a.State == Waiting {
			waiting = e.forReaders(l.whyWaits)
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

// HasHost reports whether a host has registered and was not removed since.
func (l *Ledger) HasHost(id string) bool { return l.hosts[id] != nil }

// Host returns a host, or an expected one.
func (l *Ledger) Host(id string) (HostInfo, bool) {
	if h := l.hosts[id]; h != nil {
		return l.hostInfo(h), true
	}
	if at, found := l.expectedPlace(id); found {
		return expectedInfo(&l.expected[at].HostRecord), true
	}
	return HostInfo{}, false
}

// Hosts yields the hosts with ids above after, ascending. Expected hosts are among them.
func (l *Ledger) Hosts(after string, yield func(HostInfo) bool) {
	hosts := l.hostOrder[sort.Search(len(l.hostOrder), func(i int) bool { return l.hostOrder[i].ID > after }):]
	expected := l.expected[sort.Search(len(l.expected), func(i int) bool { return l.expected[i].ID > after }):]
	for len(hosts)+len(expected) > 0 {
		var info HostInfo
		if len(hosts) == 0 || len(expected) > 0 && expected[0].ID < hosts[0].ID {
			info, expected = expectedInfo(&expected[0].HostRecord), expected[1:]
		} else {
			info, hosts = l.hostInfo(hosts[0]), hosts[1:]
		}
		if !yield(info) {
			return
		}
	}
}

func (l *Ledger) hostInfo(h *host) HostInfo {
	info := HostInfo{HostRecord: h.HostRecord, State: h.state, Account: h.account.info(), Sample: h.sample, LastSync: h.lastSync, SameMachine: l.sameMachine(h), Unaccepted: h.unaccepted, Cut: slices.Concat(h.cutCapacity, h.cutLabels)}
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
		if e.State == Reserved {
			info.Reservations++
		}
		info.EnginesUnreclaimable = capped(info.EnginesUnreclaimable, e.Unreclaimable)
		if sum, err := info.Engines.Add(e.Measured); err == nil {
			info.Engines = sum
		}
	}
	return info
}

// Counts is how many there are of each kind.
type Counts struct {
	Waiting, Reserved, Active                                int
	HostsHealthy, HostsSuspect, HostsLost, HostsReturning    int
	HostsExpected                                            int // names that are cordoned before a host comes
	QuotaRules, QuotaAccounts, Remembered, WaitingForAnyHost int
	// Unaccepted are active engines on their agents' word alone, and HostsCut are hosts that
	// announce more than their agents' identities allow.
	Unaccepted, HostsCut int
	// Queues are those of all clusters, counted once for each partition.
	Queues int
	// OverUsers are engines in over-use, in one dimension or several.
	OverUsers     int
	OverUse       map[OverUseKind]int
	HostsRefusing int // of the healthy hosts
	// HostsCordoned and HostsDraining are hosts that operators keep new engines off; a host that
	// drains counts as draining alone. HostsEnded are hosts whose agents have ended in order.
	HostsCordoned, HostsDraining, HostsEnded int
	CallersFull                              int // see FullCallers
	// Held is how many accounts are held for requests that have waited too long, and HeldIdle what
	// is free on hosts and kept for them.
	Held     map[Kind]int
	HeldIdle resource.Vector
}

// Counts counts. Its cost grows with the number of hosts, scopes and clusters.
func (l *Ledger) Counts() Counts {
	c := Counts{
		Waiting: l.states[Waiting], Reserved: l.states[Reserved], Active: l.states[Active],
		QuotaRules: l.latestRules().count, Remembered: len(l.requests.ended), WaitingForAnyHost: l.anyHost.waiting,
		HostsExpected: len(l.expected), OverUsers: l.overUsers, OverUse: maps.Clone(l.overUse), CallersFull: len(l.full),
	}
	for _, h := range l.hosts {
		c.Unaccepted += h.unaccepted
		if len(h.cutCapacity)+len(h.cutLabels) > 0 {
			c.HostsCut++
		}
		switch {
		case h.Draining:
			c.HostsDraining++
		case h.Cordoned:
			c.HostsCordoned++
		}
		if h.Left {
			c.HostsEnded++
		}
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
		case ExpectedHost: // that of a name without a host
		}
	}
	c.Held, c.HeldIdle = make(map[Kind]int), resource.Vector{}
	for _, claim := range l.claims {
		for i := range claim.held {
			a := claim.held[i].account
			c.Held[a.name.Kind]++
			if a.queue.host == nil {
				continue
			}
			if sum, err := c.HeldIdle.Add(a.idle()); err == nil {
				c.HeldIdle = sum
			}
		}
	}
	for _, s := range l.rules.scopes {
		c.QuotaAccounts += s.order.Len()
	}
	for _, external := range l.clusters {
		c.Queues += len(external.queues)
	}
	return c
}
