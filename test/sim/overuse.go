package sim

import (
	"slices"
	"strings"
	"time"

	"github.com/bursar/bursar/agent/policy"
	"github.com/bursar/bursar/agent/tracker"
	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/internal/identity"
	"github.com/bursar/bursar/label"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// tick is how often agents measure.
const tick = time.Second

// policies are those of every host: engines of an IDE are stopped for over-use, others are only
// shown.
func policies() policy.Set {
	ide, err := label.NewSelector(map[string]string{"creator": "IDE"})
	if err != nil {
		panic(err)
	}
	kill := policy.Default()
	kill.Match, kill.Action, kill.Grace = ide, policy.Kill, 2*time.Second
	return policy.Set{kill}
}

// truth is what engines really did and others are told, by allocation id; use of.
type truth map[string]*engineTruth

// engineTruth is what one engine really did.
type engineTruth struct {
	overUsed    bool // it has used more than it was entitled to
	outOfMemory bool // the kernel has ended it for lack of memory
}

// of returns the truth about the engine of an allocation, which may be changed.
func (t truth) of(id string) *engineTruth {
	if t[id] == nil {
		t[id] = new(engineTruth)
	}
	return t[id]
}

// startOverUse makes an engine use more than it is entitled to, of memory for a while, of CPU
// perhaps until its end. The machine has not promised the memory beyond the entitlement to
// anybody: checkMemory leaves it out.
func (w *World) startOverUse() {
	m := w.anyHost()
	pids := m.pids()
	if len(pids) == 0 {
		return
	}
	p := m.processes[pids[w.rng.IntN(len(pids))]]
	w.truth.of(p.id).overUsed = true
	if w.chance(3) {
		p.busy = true
		w.tellf("%s: process %d of %s is busy", m.id, p.pid, p.id)
		return
	}
	p.excess = min(m.total/8, p.most/2+128*mib)
	w.tellf("%s: process %d of %s uses %d MiB too much", m.id, p.pid, p.id, p.excess/mib)
	w.after(w.between(time.Second, 20*time.Second), "", func() { p.excess = 0 })
}

// fill fills a work directory of a host for a while.
func (w *World) fill() {
	m := w.anyHost()
	m.full = true
	w.tellf("%s: a work directory is full", m.id)
	w.after(w.between(time.Second, 10*time.Second), "", func() { m.full = false })
}

// moderate ends what would make others wait for ever.
func (w *World) moderate() {
	for _, m := range w.hosts {
		m.full = false
		for _, pid := range m.pids() {
			m.processes[pid].excess = 0
		}
	}
}

// excess is the memory that engines use beyond what they are entitled to.
func (m *machine) excess() (sum int64) {
	for _, p := range m.processes {
		sum += p.excess
	}
	return sum
}

// stopOverUse asks a coordinator to stop the engines that policies want stopped. Nothing else does
// that.
func (a *agent) stopOverUse() {
	if a.failed || !a.t.Agreed() {
		return
	}
	m := a.machine
	for _, due := range a.t.DueStops(m.w.now) {
		id, err := ledger.ParseID(due.ID)
		if err != nil {
			continue
		}
		run := a.run
		a.t.StopAsked(due, m.w.now)
		m.w.tellf("%s: agent wants %s stopped: %s", m.id, due.ID, due.Reason)
		actor := identity.Actor{Name: "agent:policy@" + m.id, Anyone: true, Role: identity.Submitter, Host: m.id}
		a.command(func(l *ledger.Ledger, now ledger.Instant) (ledger.Allocation, error) {
			return l.Stop(now, ledger.StopCommand{Actor: actor, ID: id, Grace: &due.Grace, Reason: due.Reason})
		}, func(_ *bursarv1.Allocation, err error) {
			if err != nil && a.run == run && a.up() {
				a.t.StopAsked(due, time.Time{})
			}
		})
	}
}

// checkStop holds that an engine is ended for over-use only if it exceeds its entitlement, and the
// policy is not only to show it.
func (a *agent) checkStop(g *bursarv1.Allocation, order *bursarv1.StopOrder) {
	if !strings.Contains(order.GetReason(), "(policy kill)") {
		return
	}
	w := a.machine.w
	w.tally.Killed++
	if !w.truth.of(g.GetId()).overUsed || g.GetLabels()["creator"] != "IDE" {
		w.failf(8, "%s of %s is stopped: %s", g.GetId(), g.GetLabels()["creator"], order.GetReason())
	}
}

// checkOverUseOf holds that what is committed of an engine's over-use and end is true.
func (r *callerRecord) checkOverUseOf(t *ledger.Allocation) {
	id := t.ID.String()
	if len(t.OverUse) > 0 {
		r.w.tally.OverUses++
		if !r.w.truth.of(id).overUsed || t.State == ledger.Waiting || t.State == ledger.Reserved {
			r.w.failf(8, "%s is %s and said to use too much: %v", id, t.State, t.OverUse)
		}
	}
	if t.Exit != nil && t.Exit.OutOfMemory {
		r.w.tally.OutOfMemory++
		if !r.w.truth.of(id).outOfMemory {
			r.w.failf(8, "%s is said to have been ended for lack of memory", id)
		}
	}
	if !t.State.Live() && strings.Contains(t.Reason, "is drained") {
		r.pastOf(id).drained = true
	}
	if t.Stopping && strings.Contains(t.StopReason, "is drained") {
		r.w.tally.Drained++
	}
}

// checkOverUse holds that at the end the ledger and the agent agree about every engine's over-use.
func (w *World) checkOverUse(l *ledger.Ledger, m *machine) {
	shown := make(map[string]*bursarv1.Allocation)
	for _, a := range m.agent.t.All() {
		shown[a.GetId()] = a
	}
	l.HostAllocations(m.id, func(a *ledger.Allocation) bool {
		var booked, told []string
		for _, u := range a.OverUse {
			booked = append(booked, u.Dimension+" "+u.Policy.String())
		}
		for _, u := range shown[a.ID.String()].GetOverUse() {
			told = append(told, u.GetDimension()+" "+strings.ToLower(strings.TrimPrefix(u.GetPolicy().String(), "OVER_USE_POLICY_")))
		}
		slices.Sort(told)
		if !slices.Equal(booked, told) {
			w.failf(8, "%s is in over-use by the ledger: %v, by its agent: %v", a.ID, booked, told)
		}
		for _, u := range a.OverUse {
			if u.Dimension == "memory" {
				w.failf(8, "%s uses too much memory at the end", a.ID)
			}
		}
		return true
	})
}

// judged are the settings of an agent that has just started.
func (a *agent) judged(t *tracker.Tracker) *tracker.Tracker {
	t.SetPolicies(policies(), tick)
	return t
}
