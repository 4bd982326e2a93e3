package sim

import (
	"errors"
	"time"

	"github.com/bursar/bursar/coordinator/core"
	"github.com/bursar/bursar/coordinator/ledger"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// Times of orders, as those of coordinator/launches and agent/orders, shorter.
const (
	orderAgain     = 2 * time.Second // an order that was not answered is sent again
	attachPatience = 3 * time.Second // for the agent of a grant to be attached
	grantPatience  = 4 * time.Second // for a grant to come with the agent's own heartbeat
	orderPatience  = 15 * time.Second
)

// orderKey names the order for one grant.
type orderKey struct {
	id       string
	revision uint64
}

// order is an order to launch an engine.
type order struct {
	orderKey

	request string // the request id, for the record
	memory  int64
	epoch   uint64
}

// orderTry is what a coordinator knows of the order for one grant, in one leadership.
type orderTry struct {
	orderKey

	leadership uint64
	since      time.Time
	sent       time.Time // zero: never
}

// sendOrders sends the orders of grants that are durable, again and again until the engine has
// begun. It gives a grant up if its agent was never attached.
func (c *coord) sendOrders() {
	if !c.core.Leading() || c.stopping {
		return
	}
	w := c.w
	var due []ledger.Allocation
	c.core.Ledger().Allocations(0, func(a *ledger.Allocation) bool {
		if launch := a.Launch(); launch != nil && launch.Row != 0 && a.State == ledger.Reserved && !a.Stopping && a.Revision <= c.durable {
			due = append(due, *a)
		}
		return true
	})
	for i := range due {
		a := &due[i]
		key := orderKey{a.ID.String(), a.GrantRevision}
		try := c.tries[a.ID]
		if try == nil || try.orderKey != key || try.leadership != c.leadership {
			try = &orderTry{orderKey: key, leadership: c.leadership, since: w.now}
			c.tries[a.ID] = try
		}
		m := w.machine(a.HostID)
		switch attached := m.agent.attached(c); {
		case attached && w.now.Sub(try.sent) >= orderAgain:
			try.sent = w.now
			c.sendOrder(m, order{key, a.RequestID, a.Entitled.Memory(), c.core.Meta().Epoch})
		case !attached && try.sent.IsZero() && w.now.Sub(try.since) >= attachPatience:
			c.tellf("the agent of %s is not attached: %s is tried elsewhere", m.id, a.ID)
			failed := ledger.LaunchFailed{HostID: a.HostID, ID: a.ID, GrantRevision: a.GrantRevision, Reason: "its agent takes no orders"}
			c.do(&core.Call{Done: func(error) {}, Do: core.OnLedger(func(l *ledger.Ledger, now ledger.Instant) { _, _ = l.FailLaunch(now, failed) })})
			return // the ledger has changed
		}
	}
}

// sendOrder brings an order to an agent: late, lost, or twice.
func (c *coord) sendOrder(m *machine, o order) {
	w := c.w
	deliver := func() {
		if m.link.reaches(c) {
			m.agent.take(o)
		}
	}
	if w.drops() {
		c.tellf("an order for %s is lost", o.id)
	} else {
		w.after(w.latency(), "", deliver)
	}
	if !w.calm && w.chance(8) {
		w.after(w.between(0, 30*time.Second), "", deliver)
	}
}

// attached reports whether the agent has a stream from a coordinator that leads: some time after
// either has begun.
func (a *agent) attached(c *coord) bool {
	if !a.up() || !a.machine.link.reaches(c) {
		return false
	}
	w := a.machine.w
	at, known := a.attaches[c.leadership]
	if !known {
		at = w.now.Add(w.between(0, time.Second))
		if !w.calm && w.chance(4) {
			at = w.now.Add(w.between(0, 3*attachPatience))
		}
		a.attaches[c.leadership] = at
	}
	return !w.now.Before(at)
}

// taken is an order that an agent carries out.
type taken struct {
	order

	a        *agent
	run      int // of the agent
	deadline time.Time
	process  *process
	boot     int
}

// take takes an order, once. One that is repeated gets the answer of before.
func (a *agent) take(o order) {
	if !a.up() || o.epoch < a.t.Epoch() {
		return
	}
	if answer, known := a.answers[o.orderKey]; known {
		if answer != nil {
			answer()
		}
		return
	}
	a.answers[o.orderKey] = nil
	(&taken{order: o, a: a, run: a.run, deadline: a.machine.w.now.Add(grantPatience)}).grant()
}

// then goes on after a moment, unless the agent was killed meanwhile: between any two steps.
func (t *taken) then(d time.Duration, do func()) {
	t.a.machine.w.after(d, "", func() {
		if t.a.run == t.run {
			do()
		}
	})
}

// grant waits for the reservation that comes with the agent's own heartbeat, and starts the
// process, which waits.
func (t *taken) grant() {
	g, held := t.a.t.Get(t.id)
	_, vetoed := t.a.t.Veto(t.id)
	w := t.a.machine.w
	switch {
	case vetoed:
		t.fail("vetoed")
	case held && g.GetState() != bursarv1.AllocationState_ALLOCATION_STATE_RESERVED:
		t.fail("it is " + g.GetState().String())
	case held && g.GetLaunch() == nil:
		w.failf(startsInvariant, "%s: the grant of %s came without its launch", t.a.machine.id, t.id)
	case held && t.a.launching[t.id]: // another order's process waits
		fallthrough
	case !held && w.now.Before(t.deadline):
		t.then(200*time.Millisecond, t.grant)
	case !held:
		t.fail("its grant did not come")
	default:
		t.a.launching[t.id] = true
		t.deadline, t.boot = w.now.Add(orderPatience), t.a.machine.boots
		t.process = t.a.machine.spawn(t.id, max(t.memory, mib))
		t.process.held = true
		t.then(w.latency(), t.started)
	}
}

// started has the engine confirmed: once that is durable, it may begin.
func (t *taken) started() {
	m := t.a.machine
	t.a.show(t.id, t.process)
	id, _ := ledger.ParseID(t.id)
	report := ledger.LaunchStarted{
		HostID: m.id, Incarnation: m.disk.incarnation, ID: id, GrantRevision: t.revision,
		Process: ledger.Process{PID: t.process.pid, StartTime: t.process.start, BootID: m.bootID, Verified: true, Launched: true},
	}
	t.a.command(func(l *ledger.Ledger, now ledger.Instant) (ledger.Allocation, error) {
		return l.StartLaunch(now, report)
	},
		func(_ *bursarv1.Allocation, err error) {
			switch {
			case t.a.run != t.run:
			case err == nil:
				t.then(m.w.latency(), t.store)
			case errors.Is(err, errUnavailable) && m.w.now.Before(t.deadline):
				t.then(300*time.Millisecond, t.started)
			default:
				m.exit(t.process.pid, "is ended before it has begun")
				t.fail("it could not be confirmed")
			}
		})
}

// store makes durable that the engine may have run.
func (t *taken) store() {
	if t.lives() {
		t.process.mayRun = true
	}
	t.then(t.a.machine.w.latency(), t.execute)
}

// lives reports whether the process that waits is there.
func (t *taken) lives() bool {
	m := t.a.machine
	return m.boots == t.boot && m.processes[t.process.pid] == t.process
}

// execute lets the engine begin.
func (t *taken) execute() {
	m := t.a.machine
	if !t.lives() {
		t.fail("its process has ended")
		return
	}
	t.process.held = false
	t.process.dies = m.w.now.Add(m.w.between(time.Second, 30*time.Second))
	m.w.starts.execute(m, t.process, t.request)
	t.a.t.SetBegun(t.id, "/log/"+t.id, false)
	t.a.save()
	t.then(m.w.latency(), t.begun)
}

func (t *taken) begun() {
	m := t.a.machine
	id, _ := ledger.ParseID(t.id)
	report := ledger.LaunchBegun{HostID: m.id, Incarnation: m.disk.incarnation, ID: id, LogDirectory: "/log/" + t.id}
	t.end(func(l *ledger.Ledger, now ledger.Instant) (ledger.Allocation, error) {
		return l.BeginLaunch(now, report)
	})
}

func (t *taken) fail(reason string) {
	m := t.a.machine
	id, _ := ledger.ParseID(t.id)
	report := ledger.LaunchFailed{HostID: m.id, Incarnation: m.disk.incarnation, ID: id, GrantRevision: t.revision, Reason: reason}
	m.w.tellf("%s: an order for %s fails: %s", m.id, t.id, reason)
	t.end(func(l *ledger.Ledger, now ledger.Instant) (ledger.Allocation, error) {
		return l.FailLaunch(now, report)
	})
}

// end answers the order, and again if the order is repeated.
func (t *taken) end(report func(*ledger.Ledger, ledger.Instant) (ledger.Allocation, error)) {
	delete(t.a.launching, t.id)
	t.deadline = t.a.machine.w.now.Add(orderPatience)
	var tell func()
	tell = func() {
		t.a.command(report, func(_ *bursarv1.Allocation, err error) {
			if t.a.run == t.run && errors.Is(err, errUnavailable) && t.a.machine.w.now.Before(t.deadline) {
				t.then(300*time.Millisecond, tell)
			}
		})
	}
	t.a.answers[t.orderKey] = tell
	tell()
}

// endHeld ends the processes that wait for an agent that was killed: nobody lets them begin.
func (m *machine) endHeld() {
	for _, pid := range m.pids() {
		if m.processes[pid].held {
			m.exit(pid, "ends with its agent, and has not begun")
		}
	}
}
