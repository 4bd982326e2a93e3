package sim

import (
	"bytes"
	"errors"
	"time"

	"github.com/bursar/bursar/agent/once"
	"github.com/bursar/bursar/agent/tracker"
	"github.com/bursar/bursar/coordinator/ledger"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// Times of launches, as those of agent/orders and agent/engine, shorter.
const (
	grantPatience  = 4 * time.Second // for a grant to come with the agent's own heartbeat
	orderPatience  = 15 * time.Second
	keeperPatience = 5 * time.Second // for the keeper of a launch that failed to end by itself
	readyPatience  = 3 * time.Second // for an engine to become ready
)

// readySuffix of what is executed says that it has a readiness.
const readySuffix = ", and becomes ready"

// noted is the note of a keeper that must end.
type noted struct {
	id     string
	start  uint64 // of its engine
	bootID string
	since  time.Time // zero: its launch is under way
}

// started is what is true of an engine that an order has started.
type started struct {
	on      *machine
	request string
	watched bool
	begun   time.Time // zero: it has not
	ready   time.Time // zero: never
}

// isReady reports whether the engine has become ready, in truth.
func (s *started) isReady(now time.Time) bool { return !s.ready.IsZero() && !now.Before(s.ready) }

// launch is an order that an agent carries out.
type launch struct {
	a        *agent
	key      once.Key
	spec     []byte
	run      int // of the agent
	deadline time.Time
	steps    once.Steps
	process  *process
	boot     int
}

// bootStarts begins what an agent's process does for engines that are started from elsewhere. It
// resumes those that its predecessor has started: each may have run, unless its keeper must end.
func (a *agent) bootStarts() {
	m := a.machine
	a.taken, a.launching, a.stream = once.NewOrders[func()](64), make(map[string]bool), nil
	if m.disk.keepers == nil {
		m.disk.keepers = make(map[int32]*noted)
	}
	for pid, n := range m.disk.keepers {
		if n.since = m.w.now; n.bootID != m.bootID {
			delete(m.disk.keepers, pid)
		}
	}
	for _, e := range a.t.Engines() {
		pid := e.Process.GetPid()
		if p := m.launched[pid]; p != nil && p.id == e.ID && e.Identified && m.disk.keepers[pid] == nil {
			a.t.SetBegun(e.ID, "/log/"+e.ID, p.started.watched)
		}
	}
	a.attach(a.run)
}

// measureStarts ends the keepers of launches that have failed, and looks whether engines are ready.
func (a *agent) measureStarts() {
	m := a.machine
	for _, pid := range m.pids() {
		if n := m.disk.keepers[pid]; n != nil && !n.since.IsZero() && m.w.now.Sub(n.since) >= keeperPatience {
			m.exit(pid, "is ended, as its launch has failed")
		}
	}
	for pid, n := range m.disk.keepers {
		if m.processes[pid] == nil && !n.since.IsZero() && m.w.now.Sub(n.since) >= keeperPatience {
			delete(m.disk.keepers, pid)
		}
	}
	for _, e := range a.t.Engines() {
		p := m.processes[e.Process.GetPid()]
		if a.t.Phase(e.ID) != bursarv1.Phase_PHASE_STARTING || p == nil || p.id != e.ID || p.started == nil {
			continue
		}
		switch now := m.w.now; {
		case p.started.isReady(now):
			a.t.SetPhase(e.ID, bursarv1.Phase_PHASE_READY, "", now)
		case now.Sub(p.started.begun) >= readyPatience:
			a.t.SetPhase(e.ID, bursarv1.Phase_PHASE_FAILED, "not ready within 3s", now)
		}
	}
}

// neverBegan reports whether nothing of an engine that has ended was executed, by the notes of its
// agent.
func (m *machine) neverBegan(e tracker.Engine) bool {
	n := m.disk.keepers[e.Process.GetPid()]
	return n != nil && n.id == e.ID && n.start == e.Process.GetStartTime() && n.bootID == e.Process.GetBootId()
}

// then goes on after a moment, unless the agent was killed meanwhile: between any two steps.
func (t *launch) then(d time.Duration, do func()) {
	t.a.machine.w.after(d, "", func() {
		if t.a.run == t.run {
			do()
		}
	})
}

// grant waits for the reservation that comes with the agent's own heartbeat, and starts the
// process, which waits.
func (t *launch) grant() {
	id := t.key.AllocationID
	g, held := t.a.t.Get(id)
	_, vetoed := t.a.t.Veto(id)
	m := t.a.machine
	switch {
	case t.a.launching[id] && m.w.now.Before(t.deadline): // another order's process waits
		t.then(200*time.Millisecond, t.grant)
	case t.a.launching[id]:
		t.tell(t.failed("it is being launched by another order"))
	case vetoed:
		t.tell(t.failed("vetoed"))
	case held && g.GetState() != bursarv1.AllocationState_ALLOCATION_STATE_RESERVED:
		t.tell(t.failed("it is " + g.GetState().String()))
	case held && g.GetLaunch() == nil:
		m.w.failf(startsInvariant, "%s: the grant of %s came without its launch", m.id, id)
	case !held && m.w.now.Before(t.deadline):
		t.then(200*time.Millisecond, t.grant)
	case !held:
		t.tell(t.failed("its grant did not come"))
	default:
		t.a.launching[id] = true
		t.deadline, t.boot = m.w.now.Add(orderPatience), m.boots
		t.process = m.spawn(id, max(g.GetEntitled().GetMemoryBytes(), mib))
		t.process.held = true
		t.process.started = &started{on: m, request: g.GetRequestId(), watched: bytes.HasSuffix(t.spec, []byte(readySuffix))}
		m.launched[t.process.pid] = t.process
		m.disk.keepers[t.process.pid] = &noted{id: id, start: t.process.start, bootID: m.bootID}
		t.then(m.w.latency(), t.step)
	}
}

// step does the next step of the launch.
func (t *launch) step() {
	m := t.a.machine
	switch t.steps.Next() {
	case once.Confirm:
		t.confirm()
	case once.Store:
		delete(m.disk.keepers, t.process.pid)
		m.w.starts.mayRun[t.key.AllocationID] = true
		t.done(nil)
	case once.Execute:
		t.execute()
	case once.Begun:
		t.a.t.SetBegun(t.key.AllocationID, "/log/"+t.key.AllocationID, t.process.started.watched)
		t.a.save()
		t.end(t.begun())
	case once.Failed:
		if t.lives() {
			m.exit(t.process.pid, "is ended before it has begun")
		}
		m.disk.keepers[t.process.pid] = &noted{id: t.key.AllocationID, start: t.process.start, bootID: m.bootID, since: m.w.now}
		t.end(t.failed("it could not begin"))
	}
}

// done goes on with the step after this one, unless the agent is killed right now. It is started
// again soon, so that orders and reports of its predecessor are still on their way.
func (t *launch) done(err error) {
	t.steps.Done(err)
	if a, w := t.a, t.a.machine.w; !w.calm && w.chance(20) {
		a.crash()
		run := a.run
		w.after(w.between(50*time.Millisecond, time.Second), "", func() {
			if a.run == run {
				w.tellf("%s: agent starts again", a.machine.id)
				a.boot()
			}
		})
		return
	}
	t.then(t.a.machine.w.latency(), t.step)
}

// confirm has the coordinator confirm the engine. It goes on when that is answered.
func (t *launch) confirm() {
	m := t.a.machine
	t.a.show(t.key.AllocationID, t.process)
	id, _ := ledger.ParseID(t.key.AllocationID)
	report := ledger.LaunchStarted{
		HostID: m.id, Incarnation: m.disk.incarnation, ID: id, GrantRevision: t.key.GrantRevision,
		Process: t.confirmed(),
	}
	t.a.sealedCommand(func(l *ledger.Ledger, now ledger.Instant) (ledger.Allocation, error) {
		return l.StartLaunch(now, report)
	}, func(_ *bursarv1.Allocation, err error) {
		switch {
		case t.a.run != t.run:
		case errors.Is(err, errUnavailable) && m.w.now.Before(t.deadline):
			t.then(300*time.Millisecond, t.confirm)
		default:
			t.done(err)
		}
	})
}

// confirmed is the process as the coordinator gets it.
func (t *launch) confirmed() ledger.Process {
	return ledger.Process{PID: t.process.pid, StartTime: t.process.start, BootID: t.a.machine.bootID, Verified: true, Launched: true}
}

// lives reports whether the process that waits is there.
func (t *launch) lives() bool {
	m := t.a.machine
	return m.boots == t.boot && m.processes[t.process.pid] == t.process
}

// errEnded is the error of a process that has ended before it could begin.
var errEnded = errors.New("its process has ended")

// execute lets the engine begin. Half of those that are to become ready do; the others are too
// late, or end before.
func (t *launch) execute() {
	m, p := t.a.machine, t.process
	if !t.lives() {
		t.done(errEnded)
		return
	}
	p.held = false
	p.started.begun, p.dies = m.w.now, m.w.now.Add(m.w.between(time.Second, 30*time.Second))
	if p.started.watched && m.w.chance(2) {
		p.started.ready = m.w.now.Add(m.w.between(0, readyPatience+time.Second))
	}
	m.w.starts.execute(m, p)
	t.done(nil)
}

// report is the answer to an order.
type report func(*ledger.Ledger, ledger.Instant) (ledger.Allocation, error)

func (t *launch) begun() report {
	m := t.a.machine
	id, _ := ledger.ParseID(t.key.AllocationID)
	c := ledger.LaunchBegun{HostID: m.id, Incarnation: m.disk.incarnation, ID: id, LogDirectory: "/log/" + t.key.AllocationID}
	return func(l *ledger.Ledger, now ledger.Instant) (ledger.Allocation, error) { return l.BeginLaunch(now, c) }
}

func (t *launch) failed(reason string) report {
	m := t.a.machine
	id, _ := ledger.ParseID(t.key.AllocationID)
	c := ledger.LaunchFailed{HostID: m.id, Incarnation: m.disk.incarnation, ID: id, GrantRevision: t.key.GrantRevision, Reason: reason}
	if t.process != nil {
		c.Process = t.confirmed()
	}
	m.w.tellf("%s: an order for %s fails: %s", m.id, t.key.AllocationID, reason)
	return func(l *ledger.Ledger, now ledger.Instant) (ledger.Allocation, error) { return l.FailLaunch(now, c) }
}

// end answers the order, and ends its launch.
func (t *launch) end(r report) {
	delete(t.a.launching, t.key.AllocationID)
	t.tell(r)
}

// tell answers the order, and again if the order is repeated.
func (t *launch) tell(r report) {
	m := t.a.machine
	t.deadline = m.w.now.Add(orderPatience)
	var tell func()
	tell = func() {
		t.a.command(r, func(_ *bursarv1.Allocation, err error) {
			if t.a.run == t.run && errors.Is(err, errUnavailable) && m.w.now.Before(t.deadline) {
				t.then(300*time.Millisecond, tell)
			}
		})
	}
	t.a.taken.Answer(t.key, tell)
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
