package sim

import (
	"errors"
	"time"

	"github.com/bursar/bursar/agent/once"
	"github.com/bursar/bursar/agent/tracker"
	"github.com/bursar/bursar/coordinator/ledger"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// safety is the memory that every host keeps free for itself.
const safety = 256 * mib

// agent is an agent's process: the production tracker, with the calls that the real agent makes
// around it.
type agent struct {
	machine *machine
	t       *tracker.Tracker // nil while it is down
	run     int              // of the process; answers for an earlier run are lost
	syncing bool
	lastTry time.Time
	failed  bool // the last try was not answered

	// Of orders: those that were taken, with how they are answered, the allocations whose launch
	// is under way, and the stream that they come by.
	taken     *once.Orders[func()]
	launching map[string]bool
	stream    *attachment // nil: none
}

// agentDisk is what an agent's process leaves on disk.
type agentDisk struct {
	saved       tracker.Snapshot
	incarnation uint64
	// keepers are those that must end, by the pid of their engine: they are of launches that are
	// under way, or have failed.
	keepers map[int32]*noted
}

func (a *agent) up() bool { return a.t != nil }

// holds answers a Get: whether the agent holds the allocation.
func (a *agent) holds(id string) bool {
	if !a.up() {
		return false
	}
	_, held := a.t.Get(id)
	return held
}

// show gives the agent the process that a launcher is about to confirm.
func (a *agent) show(id string, p *process) {
	if a.up() {
		a.t.Show(id, &bursarv1.Process{Pid: p.pid, StartTime: p.start, BootId: a.machine.bootID})
	}
}

// boot starts the process.
func (a *agent) boot() {
	m := a.machine
	a.run++
	m.disk.incarnation++
	a.t = a.judged(tracker.New(m.w.now, tracker.Host{
		ID: m.id, Address: m.id + ":0", Labels: map[string]string{"zone": m.zone},
		Capacity: m.capacity(), BootID: m.bootID, Incarnation: m.disk.incarnation,
	}, m.disk.saved))
	a.syncing = false
	if m.w.starts != nil {
		a.bootStarts()
	}
	a.measure(a.run)
	a.pump(a.run)
}

// crash kills the process; its engines go on. Its machine starts it again.
func (a *agent) crash() {
	if !a.up() {
		return
	}
	a.machine.w.tellf("%s: agent is killed", a.machine.id)
	a.t = nil
	a.run++
	a.stream = nil
	a.machine.endHeld()
}

func (a *agent) crashAndRestart() {
	if !a.up() {
		return
	}
	a.crash()
	run := a.run
	a.machine.w.after(a.machine.w.between(100*time.Millisecond, 15*time.Second), "", func() {
		if a.run == run {
			a.machine.drawZone()
			a.machine.w.tellf("%s: agent starts, in zone %s", a.machine.id, a.machine.zone)
			a.boot()
		}
	})
}

// save makes durable what the agent must know after a crash.
func (a *agent) save() {
	if a.t.Unsaved() {
		a.machine.disk.saved = a.t.Snapshot()
	}
}

// measure measures the machine every second.
func (a *agent) measure(run int) {
	if a.run != run {
		return
	}
	m := a.machine
	if m.w.starts != nil {
		a.measureStarts()
	}
	var usages []tracker.Usage
	for _, e := range a.t.Engines() {
		usages = append(usages, m.usage(e))
	}
	available := max(0, m.total-m.used()-m.others-m.excess())
	refusal := ""
	if m.full {
		refusal = "/data is full"
	}
	total, reserve := m.total, safety
	a.t.Measure(m.w.now, tracker.Measurement{
		Sample: &bursarv1.HostSample{
			MemoryTotalBytes: &total, MemoryAvailableBytes: &available, MemorySafetyBytes: &reserve,
			Pressure: available < safety/2, Refusal: refusal,
		},
		Usages: usages,
	})
	a.save()
	a.stopOverUse()
	m.w.after(tick, "", func() { a.measure(run) })
}

// usage measures one engine.
func (m *machine) usage(e tracker.Engine) tracker.Usage {
	u := tracker.Usage{ID: e.ID, PID: e.Process.GetPid(), StartTime: e.Process.GetStartTime()}
	p := m.processes[e.Process.GetPid()]
	if p == nil || p.start != e.Process.GetStartTime() || e.Process.GetBootId() != m.bootID {
		u.Ended, u.NotBegun = true, m.neverBegan(e)
		if m.w.truth.of(e.ID).outOfMemory && e.Process.GetBootId() == m.bootID {
			u.Exit = &bursarv1.ExitStatus{Signal: 9, OutOfMemory: true}
		}
		return u
	}
	u.MemoryBytes, u.UnreclaimableBytes, u.CPUMillis = p.touched+p.cache+p.excess, p.touched+p.excess, 100
	if p.busy {
		u.CPUMillis = 9000 // more than any is entitled to
	}
	return u
}

// pump sends what is due: an announcement, or a heartbeat.
func (a *agent) pump(run int) {
	if a.run != run {
		return
	}
	w := a.machine.w
	w.after(100*time.Millisecond, "", func() { a.pump(run) })
	due := w.now.Sub(a.lastTry) >= a.t.Interval() || ((a.failed || a.t.Urgent() || a.t.Refusing()) && w.now.Sub(a.lastTry) >= 200*time.Millisecond)
	if a.syncing || !due {
		return
	}
	a.syncing, a.lastTry = true, w.now
	if a.t.NeedsRegister() {
		a.register(run)
	} else {
		a.sync(run)
	}
}

func (a *agent) register(run int) {
	q, seenIn := a.t.BuildRegister(), a.machine.seenIn
	a.report(run, func(c *coord, reply func(answer)) func() {
		c.register(q, seenIn, reply)
		return nil
	}, func(value any) bool {
		h, _ := value.(hostAnswer)
		r, ok := h.message.(*bursarv1.RegisterResponse)
		if !ok {
			return false
		}
		epoch := a.t.Epoch()
		err := a.t.Registered(r)
		a.checkEpoch(epoch, r.GetEpoch(), h.leadership, err)
		a.save()
		return true
	})
}

func (a *agent) sync(run int) {
	w := a.machine.w
	q, seenIn := a.t.BuildSync(w.now), a.machine.seenIn
	a.report(run, func(c *coord, reply func(answer)) func() {
		c.sync(q, seenIn, reply)
		return nil
	}, func(value any) bool {
		h, _ := value.(hostAnswer)
		r, ok := h.message.(*bursarv1.SyncResponse)
		if !ok {
			// The coordinator knows a later sequence: Register says which.
			if value != nil {
				a.t.Resync()
			}
			return false
		}
		epoch := a.t.Epoch()
		out, err := a.t.Answer(w.now, q, r)
		a.checkEpoch(epoch, r.GetEpoch(), h.leadership, err)
		for _, order := range out.Stops {
			a.stop(order)
		}
		a.save()
		return true
	})
}

// report makes calls one after the other. The agent also gets answers that come after it has given
// up the call: its tracker must know by itself which are too old.
func (a *agent) report(run int, serve func(c *coord, reply func(answer)) func(), take func(value any) (ok bool)) {
	a.machine.link.callAndListen(0, serve, func(value any) {
		if a.run == run {
			a.syncing, a.failed = false, !take(value)
		}
	}, func(value any) {
		if a.run == run {
			take(value)
		}
	})
}

// checkEpoch holds invariant 6 at the agent: its epoch never goes back, not even when it restarts,
// and it does nothing for an older one.
func (a *agent) checkEpoch(before, answered, leadership uint64, refused error) {
	m := a.machine
	if refused != nil {
		m.w.tellf("%s: %v", m.id, refused)
	}
	before = max(before, m.epoch)
	if a.t.Epoch() < before {
		m.w.failf(6, "%s went from epoch %d back to %d", m.id, before, a.t.Epoch())
	}
	if refused == nil && answered < before {
		m.w.failf(6, "%s took an answer of epoch %d in epoch %d", m.id, answered, before)
	}
	if refused == nil && answered == before && before == m.epoch && m.seenIn != leadership {
		m.w.failf(6, "%s took an answer of leadership %d in epoch %d, which is of leadership %d to it", m.id, leadership, before, m.seenIn)
	}
	if refused == nil {
		m.epoch, m.seenIn = a.t.Epoch(), leadership
	}
}

func (a *agent) stop(order *bursarv1.StopOrder) {
	if g, held := a.t.Get(order.GetAllocationId()); held {
		m := a.machine
		p := m.processes[g.GetProcess().GetPid()]
		if p != nil && p.start == g.GetProcess().GetStartTime() && g.GetProcess().GetBootId() == m.bootID {
			a.checkStop(g, order)
			m.exit(p.pid, "is stopped")
		}
	}
}

// errVetoed is what a caller gets when the agent did not find the memory.
var errVetoed = errors.New("vetoed")

// allocate forwards a launcher's request and decides last about the grant. If the answer comes
// late, the launcher asks again; if the grant still stands then, the agent knows something wrong.
func (a *agent) allocate(command ledger.AllocateCommand, repeated bool, done func(*bursarv1.Allocation, error)) {
	a.forward(command.Wait, func(c *coord, reply func(answer)) func() {
		return c.allocate(command, reply)
	}, func(g *bursarv1.Allocation, verdict tracker.Verdict, err error) {
		switch {
		case err != nil, g.GetState() != bursarv1.AllocationState_ALLOCATION_STATE_RESERVED, verdict == tracker.Held:
			done(g, err)
		case verdict == tracker.Vetoed:
			a.machine.w.tellf("%s: agent has no memory for %s", a.machine.id, g.GetId())
			done(g, errVetoed)
		case repeated:
			a.machine.w.tellf("%s: agent does not know of %s", a.machine.id, g.GetId())
			a.t.Resync()
			done(g, nil)
		default:
			a.allocate(command, true, done)
		}
	})
}

// command forwards a command on one allocation.
func (a *agent) command(f func(*ledger.Ledger, ledger.Instant) (ledger.Allocation, error), done func(*bursarv1.Allocation, error)) {
	a.forward(0, func(c *coord, reply func(answer)) func() {
		c.on(reply, f)
		return nil
	}, func(g *bursarv1.Allocation, _ tracker.Verdict, err error) { done(g, err) })
}

// sealedCommand is command for one whose answer is sealed.
func (a *agent) sealedCommand(f func(*ledger.Ledger, ledger.Instant) (ledger.Allocation, error), done func(*bursarv1.Allocation, error)) {
	a.forward(0, func(c *coord, reply func(answer)) func() {
		c.onSealed(reply, f)
		return nil
	}, func(g *bursarv1.Allocation, _ tracker.Verdict, err error) { done(g, err) })
}

// forward passes a call on to the coordinator, and the agent sees the answer before the caller
// gets it.
func (a *agent) forward(patience time.Duration, serve func(c *coord, reply func(answer)) func(), done func(*bursarv1.Allocation, tracker.Verdict, error)) {
	if !a.up() {
		done(nil, tracker.Passed, errUnavailable)
		return
	}
	run, asOf := a.run, a.t.Epoch()
	a.machine.link.call(patience, serve, func(value any) {
		r, ok := value.(answerTo)
		switch {
		case a.run != run, !ok:
			done(nil, tracker.Passed, errUnavailable)
		case r.err != nil:
			done(nil, tracker.Passed, r.err)
		default:
			verdict := a.t.Observe(a.machine.w.now, r.allocation, asOf)
			a.save()
			done(r.allocation, verdict, nil)
		}
	})
}
