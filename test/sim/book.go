package sim

import (
	"strings"
	"time"

	"github.com/bursar/bursar/coordinator/ledger"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// book is what the callers know: the grants that they were told. It is kept apart from everything
// that the system itself keeps.
type book struct {
	w       *World
	granted map[string]*knownGrant // by allocation id
	// byAsk has the allocation id by request id, as the callers know it.
	byAsk map[string]string
	// lost were given up with their host: engines that run are adopted later, reservations are
	// not.
	lost map[string]bool
	// vetoed were taken back by an agent; a gateway learns that when it wants to confirm.
	vetoed  map[string]bool
	drained map[string]bool // ended because their host was drained by a deadline
	// undone were changed after the state that the store was put back to, and so are lost or older
	// there.
	undone map[string]bool
	// latest is the ledger's time of the latest reservation that a caller knows.
	latest time.Time
}

// knownGrant is a grant that a caller knows.
type knownGrant struct {
	id        string
	host      string
	team      string
	memory    int64
	expires   time.Time
	confirmed bool
	// ended says that the caller has begun to give it back, or its process is gone.
	ended   bool
	attempt *attempt
}

func newBook(w *World) *book {
	return &book{
		w: w, granted: make(map[string]*knownGrant), byAsk: make(map[string]string),
		lost: make(map[string]bool), vetoed: make(map[string]bool), drained: make(map[string]bool), undone: make(map[string]bool),
	}
}

// grant notes that a caller knows of a reservation, and checks that callers have not been given
// too much.
func (b *book) grant(a *attempt, g *bursarv1.Allocation) {
	if before, known := b.byAsk[a.command.RequestID]; known && before != g.GetId() && !b.undone[before] {
		b.w.failf(5, "request %s is allocation %s and %s", a.command.RequestID, before, g.GetId())
	}
	b.byAsk[a.command.RequestID] = g.GetId()
	if at := g.GetReserveTime().AsTime(); at.After(b.latest) {
		b.latest = at
	}
	b.granted[g.GetId()] = &knownGrant{
		id: g.GetId(), host: g.GetHostId(), team: a.command.Labels.Value("team"),
		memory: g.GetEntitled().GetMemoryBytes(), expires: g.GetExpireTime().AsTime(), attempt: a,
	}
	b.checkHost(g.GetHostId())
	b.checkTeam(a.command.Labels.Value("team"))
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

// checkTeam adds up what callers hold of an account whose limit never changes. Grants that were
// given up with their host, or lost with a past of the store, no longer count in the account. They
// may be taken over again, above the limit if need be.
func (b *book) checkTeam(team string) {
	sum := int64(0)
	for _, t := range b.granted {
		if t.team == team && b.holds(t) && !b.lost[t.id] && !b.undone[t.id] {
			sum += t.memory
		}
	}
	if limit := b.w.teamLimit; sum > limit {
		b.w.failf(1, "callers were told of %d MiB for team %s, whose limit is %d MiB", sum/mib, team, limit/mib)
	}
}

// holds reports whether the caller has a right to its grant.
func (b *book) holds(t *knownGrant) bool {
	switch {
	case t.ended, b.drained[t.id], t.attempt.l.machine == nil && b.vetoed[t.id], (b.lost[t.id] || b.undone[t.id]) && !t.confirmed:
		return false
	case t.confirmed:
		return !t.attempt.gone()
	case t.attempt.process != nil && t.attempt.gone():
		return false
	default:
		return b.latest.Before(t.expires) // both by the ledger's time, for clocks differ
	}
}

// offer notes that a caller needs less, from the moment that it says so.
func (b *book) offer(a *attempt) { b.granted[a.id].memory = a.entitled }

func (b *book) confirm(a *attempt) { b.granted[a.id].confirmed = true }

func (b *book) end(id string) { b.granted[id].ended = true }

// record checks every transition that was committed.
func (b *book) record(transitions []ledger.Allocation) {
	for i := range transitions {
		t := &transitions[i]
		switch {
		case t.State == ledger.Lost:
			b.lost[t.ID.String()] = true
		case strings.HasPrefix(t.Reason, ledger.ReasonVetoed):
			b.vetoed[t.ID.String()] = true
		}
		b.checkOverUseOf(t)
		b.w.tellf("  %s %s -> %s on %q at revision %d %s", t.ID, t.RequestID, t.State, t.HostID, t.Revision, t.Reason)
	}
}
