package sim

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/store"
)

// checkStored holds invariant 4: what a caller knows is in the store when a leadership begins.
func (r *callerRecord) checkStored(disk store.Store) {
	for _, id := range slices.Sorted(maps.Keys(r.granted)) {
		t := r.granted[id]
		if r.pastOf(id).undone {
			continue
		}
		number, err := ledger.ParseID(id)
		if err != nil {
			r.w.failf(4, "%v", err)
			return
		}
		a, err := disk.Get(context.Background(), number)
		switch {
		case errors.Is(err, store.ErrNotFound):
			r.w.failf(4, "%s was granted to %s and is not stored", id, t.attempt.l.name)
		case err != nil:
			r.w.failf(4, "%s: %v", id, err)
		case t.confirmed && (a.State == ledger.Reserved || a.State == ledger.Waiting || a.State == ledger.Expired):
			r.w.failf(4, "%s was confirmed and is stored as %s", id, a.State)
		}
	}
}

// checkStep runs after every event.
func (w *World) checkStep() {
	if w.crowd != nil {
		w.crowd.check()
		return
	}
	for _, c := range w.coords {
		if c.up() && c.core.Leading() {
			w.checkDurations(c)
		}
		if !c.up() || !c.core.Leading() || c.core.Ledger().Revision() == c.audited {
			continue
		}
		c.audited = c.core.Ledger().Revision()
		for _, v := range c.core.Ledger().Audit() {
			w.failf(v.Invariant, "%s: %s", c.name, v.Message)
		}
		c.checkRules()
		w.checkPatience(c)
		if w.tally.Steps%16 == 0 {
			w.checkBlockers(c)
		}
	}
}

// checkEnd holds, when the world is at rest, that one coordinator leads and all others know it,
// that nobody waits, and that ledger, agents and machines agree.
func (w *World) checkEnd() {
	leader := w.checkLeader()
	if leader == nil {
		return
	}
	l := leader.core.Ledger()
	if n := l.Counts().Waiting; n > 0 {
		w.failf(7, "%d requests still wait", n)
	}
	w.checkClustersEnd(leader)
	w.checkProbes()
	if w.crowd != nil {
		w.crowd.checkEnd(l)
	}
	if w.starts != nil {
		w.starts.checkEnd(l)
	}
	for _, m := range w.hosts {
		w.checkHostEnd(l, m)
		if m.agent.t.Epoch() != w.store.known.epoch || m.agent.t.StoreID() != w.store.id() {
			w.failf(6, "host %s is in epoch %d of %s, the store %s in %d", m.id, m.agent.t.Epoch(), m.agent.t.StoreID(), w.store.id(), w.store.known.epoch)
		}
	}
}

// checkLeader returns the leader.
func (w *World) checkLeader() *coord {
	var leader *coord
	for _, c := range w.coords {
		switch {
		case !c.up() || !c.core.Leading():
		case leader != nil:
			w.failf(6, "%s and %s both lead at the end", leader.name, c.name)
		default:
			leader = c
		}
	}
	if leader == nil {
		w.failf(8, "no coordinator leads at the end")
		return nil
	}
	for _, c := range w.coords {
		if c.election.leader() != leader {
			w.failf(8, "%s does not know that %s leads", c.name, leader.name)
		}
	}
	return leader
}

// checkHostEnd holds that ledger, agent and machine have the same engines, and invariant 7.
func (w *World) checkHostEnd(l *ledger.Ledger, m *machine) {
	var booked, tracked, running []string
	l.HostAllocations(m.id, func(a *ledger.Allocation) bool {
		switch {
		case a.State == ledger.Active && a.Process.PID == 0: // it has no process here
		case a.State == ledger.Active:
			booked = append(booked, a.ID.String())
		default:
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
	w.checkOverUse(l, m)
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
