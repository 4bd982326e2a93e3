package sim

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/store"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// book is what the callers know: what they were told is theirs, kept apart from everything that the system itself keeps.
type book struct {
	w       *World
	granted map[string]*told  // by allocation id
	byAsk   map[string]string // request id to allocation id, as callers were told
	rows    map[string]row    // by caller and request id, as stored
	lost    map[string]bool   // given up with their host: engines that run are adopted later, reservations are not
	vetoed  map[string]bool   // taken back by an agent, which a gateway learns when it wants to confirm
	seen    uint64            // the last revision that was looked at
}

// row is what is stored under a request id.
type row struct {
	id     ledger.ID
	forget bool
}

// told is a grant that a caller was told of.
type told struct {
	id        string
	host      string
	user      string
	memory    int64
	expires   time.Time
	confirmed bool
	ended     bool // the caller has begun to give it back, or its process is gone
	attempt   *attempt
}

func newBook(w *World) *book {
	return &book{w: w, granted: make(map[string]*told), byAsk: make(map[string]string), rows: make(map[string]row), lost: make(map[string]bool), vetoed: make(map[string]bool)}
}

// grant notes that a caller was told of a reservation, and checks that nobody was told of too much.
func (b *book) grant(a *attempt, g *bursarv1.Allocation) {
	if before, known := b.byAsk[a.command.RequestID]; known && before != g.GetId() {
		b.w.failf(5, "request %s is allocation %s and %s", a.command.RequestID, before, g.GetId())
	}
	b.byAsk[a.command.RequestID] = g.GetId()
	b.granted[g.GetId()] = &told{
		id: g.GetId(), host: g.GetHostId(), user: a.command.Labels.Value("user"),
		memory: g.GetEntitled().GetMemoryBytes(), expires: g.GetExpireTime().AsTime(), attempt: a,
	}
	b.checkHost(g.GetHostId())
}

// checkHost adds up what callers hold on a host.
func (b *book) checkHost(host string) {
	sum := int64(0)
	for _, t := range b.granted {
		if t.host == host && b.holds(t) {
			sum += t.memory
		}
	}
	m := b.w.machine(host)
	if sum > m.total-m.base {
		b.w.failf(1, "callers were told of %d MiB on host %s, which has %d MiB to give", sum/mib, host, (m.total-m.base)/mib)
	}
}

// holds reports whether the caller has a right to what it was told of.
func (b *book) holds(t *told) bool {
	switch {
	case t.ended, t.attempt.l.machine == nil && b.vetoed[t.id], b.lost[t.id] && !t.confirmed:
		return false
	case t.confirmed:
		return !t.attempt.gone()
	case t.attempt.process != nil && t.attempt.gone():
		return false
	default:
		return b.w.now.Before(t.expires)
	}
}

// offer notes that a caller is content with less, from the moment it says so.
func (b *book) offer(a *attempt) { b.granted[a.id].memory = a.entitled }

func (b *book) confirm(a *attempt) { b.granted[a.id].confirmed = true }

func (b *book) end(id string) { b.granted[id].ended = true }

// record looks at every transition on its way to the store.
func (b *book) record(transitions []ledger.Allocation) {
	for i := range transitions {
		t := &transitions[i]
		switch {
		case t.State == ledger.Lost:
			b.lost[t.ID.String()] = true
		case strings.HasPrefix(t.Reason, ledger.ReasonVetoed):
			b.vetoed[t.ID.String()] = true
		}
		b.w.tellf("  %s %s -> %s on %q at revision %d %s", t.ID, t.RequestID, t.State, t.HostID, t.Revision, t.Reason)
	}
}

// stored holds invariant 5 over everything that became durable: one request id, one allocation.
func (b *book) stored(transitions []ledger.Allocation) {
	for i := range transitions {
		t := &transitions[i]
		key := t.Caller + "/" + t.RequestID
		if before, known := b.rows[key]; known && before.id != t.ID && !before.forget && t.RequestID != "" {
			b.w.failf(5, "request %s is stored as %s and as %s", key, before.id, t.ID)
		}
		b.rows[key] = row{t.ID, t.Forget}
	}
}

// checkHeadroom holds invariant 9 from the sample and the reports that the coordinator has taken in: what is promised on a
// host is there.
func (b *book) checkHeadroom(l *ledger.Ledger, a *ledger.Allocation, info ledger.HostInfo) {
	if a.Entitled.Memory() == 0 || info.Sample == nil || info.Sample.MemoryAvailable == nil {
		return
	}
	left := *info.Sample.MemoryAvailable - info.Sample.MemorySafety
	l.HostAllocations(a.HostID, func(other *ledger.Allocation) bool {
		left -= max(0, other.Entitled.Memory()-other.Unreclaimable)
		return true
	})
	if left < 0 {
		b.w.failf(9, "the grant of %s put host %s %d bytes below its live headroom", a.ID, a.HostID, -left)
	}
}

// checkGrants holds invariants 1 and 9 at the moment of every grant: right after it, no account that it touches is short.
func (b *book) checkGrants(l *ledger.Ledger) {
	if l == nil || l.Revision() == b.seen {
		return
	}
	var fresh []ledger.Allocation
	l.Allocations(0, func(a *ledger.Allocation) bool {
		if a.State == ledger.Reserved && a.Revision > b.seen {
			fresh = append(fresh, *a)
		}
		return true
	})
	b.seen = l.Revision()
	for i := range fresh {
		a := &fresh[i]
		info, _ := l.Host(a.HostID)
		b.checkAccount(a, info.Account)
		b.checkHeadroom(l, a, info)
		l.QuotaAccounts("", func(_ string, account ledger.AccountInfo) bool {
			if touches(a, account) {
				b.checkAccount(a, account)
			}
			return true
		})
	}
}

// touches reports whether an allocation counts in a quota account, by its labels alone. Of a user's own rule and the rule
// for any user only the first one's account exists.
func touches(a *ledger.Allocation, account ledger.AccountInfo) bool {
	for _, l := range account.Name.Labels {
		if a.Labels.Value(l.Key) != l.Value {
			return false
		}
	}
	return true
}

// checkAccount holds invariant 1 in the dimensions that the grant asks for.
func (b *book) checkAccount(a *ledger.Allocation, account ledger.AccountInfo) {
	for dimension, asked := range a.Entitled.All() {
		limit, limited := account.Limit.Get(dimension)
		if !limited || asked == 0 {
			continue
		}
		used, _ := account.Used.Get(dimension)
		reserved, _ := account.Reserved.Get(dimension)
		if used+reserved > limit {
			b.w.failf(1, "the grant of %s put %s over its limit: %s used %d, reserved %d, limit %d", a.ID, account.Name, dimension, used, reserved, limit)
		}
	}
}

// checkStored holds invariant 4: what a caller was told of is in the store after every start of the coordinator.
func (b *book) checkStored(disk store.Store) {
	for _, id := range slices.Sorted(maps.Keys(b.granted)) {
		t := b.granted[id]
		number, err := ledger.ParseID(id)
		if err != nil {
			b.w.failf(4, "%v", err)
			return
		}
		a, err := disk.Get(context.Background(), number)
		switch {
		case errors.Is(err, store.ErrNotFound):
			b.w.failf(4, "%s was granted to %s and is not stored", id, t.attempt.l.name)
		case err != nil:
			b.w.failf(4, "%s: %v", id, err)
		case t.confirmed && (a.State == ledger.Reserved || a.State == ledger.Waiting || a.State == ledger.Expired):
			b.w.failf(4, "%s was confirmed and is stored as %s", id, a.State)
		}
	}
}

// checkStep runs after every event.
func (w *World) checkStep() {
	if !w.coord.up() || !w.coord.core.Leading() {
		return
	}
	l := w.coord.core.Ledger()
	if l.Revision() == w.audited {
		return
	}
	w.audited = l.Revision()
	for _, v := range l.Audit() {
		w.failf(v.Invariant, "%s", v.Message)
	}
}

// checkEnd holds, when the world has come to rest, that nobody waits and that ledger, agents and machines agree.
func (w *World) checkEnd() {
	if !w.coord.up() || !w.coord.core.Leading() {
		w.failf(8, "no coordinator leads at the end")
		return
	}
	l := w.coord.core.Ledger()
	if n := l.Counts().Waiting; n > 0 {
		w.failf(7, "%d requests still wait", n)
	}
	for _, m := range w.hosts {
		var booked, tracked, running []string
		l.HostAllocations(m.id, func(a *ledger.Allocation) bool {
			if a.State == ledger.Active {
				booked = append(booked, a.ID.String())
			} else {
				w.failf(7, "%s is still %s", a.ID, a.State)
			}
			return true
		})
		for _, e := range m.agent.t.Engines() {
			tracked = append(tracked, e.ID)
		}
		for _, p := range m.processes {
			running = append(running, p.id)
		}
		slices.Sort(booked)
		slices.Sort(tracked)
		slices.Sort(running)
		if !slices.Equal(booked, tracked) {
			w.failf(8, "host %s: the ledger has %v, the agent %v", m.id, booked, tracked)
		}
		if !slices.Equal(tracked, running) {
			w.failf(8, "host %s: the agent has %v, the machine %v", m.id, tracked, running)
		}
		if info, _ := l.Host(m.id); info.State != ledger.Healthy {
			w.failf(8, "host %s is %s at the end", m.id, info.State)
		}
	}
}
