package sim

import (
	"strings"
	"time"

	"github.com/bursar/bursar/coordinator/ledger"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// callerRecord is what the callers know: the grants that they were told. It is kept apart from
// everything that the system itself keeps.
type callerRecord struct {
	w       *World
	granted map[string]*knownGrant // by allocation id
	// byRequest has the allocation id by request id, as the callers know it.
	byRequest map[string]string
	pasts     map[string]*past // by allocation id; use pastOf
	// latest is the ledger's time of the latest reservation that a caller knows.
	latest time.Time
}

// past is what has happened to an allocation.
type past struct {
	// lost: it was given up with its host. An engine that runs is adopted later, a reservation is
	// not.
	lost bool
	// vetoed: an agent took it back. A gateway learns that when it wants to confirm.
	vetoed  bool
	drained bool // it ended because its host was drained by a deadline
	// undone: it was changed after the state that the store was put back to, and so it is lost or
	// older there.
	undone bool
}

// pastOf returns the past of an allocation, which may be changed.
func (r *callerRecord) pastOf(id string) *past {
	if r.pasts[id] == nil {
		r.pasts[id] = new(past)
	}
	return r.pasts[id]
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

func newCallerRecord(w *World) *callerRecord {
	return &callerRecord{
		w: w, granted: make(map[string]*knownGrant), byRequest: make(map[string]string), pasts: make(map[string]*past),
	}
}

// grant notes that a caller knows of a reservation, and checks that callers have not been given
// too much.
func (r *callerRecord) grant(a *attempt, g *bursarv1.Allocation) {
	if before, known := r.byRequest[a.command.RequestID]; known && before != g.GetId() && !r.pastOf(before).undone {
		r.w.failf(5, "request %s is allocation %s and %s", a.command.RequestID, before, g.GetId())
	}
	r.byRequest[a.command.RequestID] = g.GetId()
	if at := g.GetReserveTime().AsTime(); at.After(r.latest) {
		r.latest = at
	}
	r.granted[g.GetId()] = &knownGrant{
		id: g.GetId(), host: g.GetHostId(), team: a.command.Labels.Value("team"),
		memory: g.GetEntitled().GetMemoryBytes(), expires: g.GetExpireTime().AsTime(), attempt: a,
	}
	r.checkHost(g.GetHostId())
	r.checkTeam(a.command.Labels.Value("team"))
}

// checkHost adds up what callers hold on a host.
func (r *callerRecord) checkHost(host string) {
	sum := int64(0)
	for _, t := range r.granted {
		if t.host == host && r.holds(t) {
			sum += t.memory
		}
	}
	m := r.w.machine(host)
	if sum > m.total-m.base {
		r.w.failf(1, "callers got %d MiB on host %s, which has %d MiB to give", sum/mib, host, (m.total-m.base)/mib)
	}
}

// checkTeam adds up what callers hold of an account whose limit never changes. Grants that were
// given up with their host, or lost with a past of the store, no longer count in the account. They
// may be taken over again, above the limit if need be.
func (r *callerRecord) checkTeam(team string) {
	sum := int64(0)
	for _, t := range r.granted {
		if past := r.pastOf(t.id); t.team == team && r.holds(t) && !past.lost && !past.undone {
			sum += t.memory
		}
	}
	if limit := r.w.teamLimit; sum > limit {
		r.w.failf(1, "callers got %d MiB for team %s, whose limit is %d MiB", sum/mib, team, limit/mib)
	}
}

// holds reports whether the caller has a right to its grant.
func (r *callerRecord) holds(t *knownGrant) bool {
	switch past := r.pastOf(t.id); {
	case t.ended, past.drained, t.attempt.l.machine == nil && past.vetoed, (past.lost || past.undone) && !t.confirmed:
		return false
	case t.confirmed:
		return !t.attempt.gone()
	case t.attempt.process != nil && t.attempt.gone():
		return false
	default:
		return r.latest.Before(t.expires) // both by the ledger's time, for clocks differ
	}
}

// offer notes that a caller needs less, from the moment that it says so.
func (r *callerRecord) offer(a *attempt) { r.granted[a.id].memory = a.entitled }

func (r *callerRecord) confirm(a *attempt) { r.granted[a.id].confirmed = true }

func (r *callerRecord) end(id string) { r.granted[id].ended = true }

// record checks every transition that was committed.
func (r *callerRecord) record(transitions []ledger.Allocation) {
	for i := range transitions {
		t := &transitions[i]
		switch {
		case t.State == ledger.Lost:
			r.pastOf(t.ID.String()).lost = true
		case strings.HasPrefix(t.Reason, ledger.ReasonVetoed):
			r.pastOf(t.ID.String()).vetoed = true
		}
		r.checkOverUseOf(t)
		if r.w.starts != nil {
			r.w.starts.record(t)
		}
		if r.w.crowd != nil {
			r.w.crowd.record(t)
		}
		r.w.tellf("  %s %s -> %s on %q at revision %d %s", t.ID, t.RequestID, t.State, t.HostID, t.Revision, t.Reason)
	}
}
