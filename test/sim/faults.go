package sim

import (
	"time"

	"github.com/bursar/bursar/coordinator/ledger"
)

// launchFaults makes things go wrong at random moments, each kind at its own rate. A world draws
// which kinds it has and how often: if everything failed all the time, what takes a while would
// never happen.
func (w *World) launchFaults() {
	w.plan(15*time.Second, func() { w.anyHost().agent.crashAndRestart() })
	w.plan(60*time.Second, func() { w.anyHost().reboot() })
	w.plan(20*time.Second, func() { w.cutOff(w.anyHost()) })
	w.plan(30*time.Second, func() { w.anyHost().resize() })
	w.plan(90*time.Second, w.removeHost)
	w.every(5*time.Second, w.killSomething)
	w.every(15*time.Second, w.mute)
	w.plan(3*time.Second, w.startOverUse)
	w.plan(30*time.Second, w.fill)
	w.every(30*time.Second, w.changeRules)
	w.every(10*time.Second, w.storeRule)
	w.launchOutages()
	w.launchClusterFaults()
}

// plan plans a kind of fault: not at all, now and then, or often.
func (w *World) plan(d time.Duration, do func()) {
	switch w.rng.IntN(3) {
	case 0:
	case 1:
		w.every(4*d, do)
	default:
		w.every(d, do)
	}
}

// every does something again and again, on average once in d.
func (w *World) every(d time.Duration, do func()) {
	w.after(w.between(0, 2*d), "", func() {
		if w.calm {
			return
		}
		do()
		w.every(d, do)
	})
}

func (w *World) anyHost() *machine { return w.hosts[w.rng.IntN(len(w.hosts))] }

// cutOff cuts a host's link for a while, sometimes for so long that the host is given up.
func (w *World) cutOff(m *machine) {
	if m.link.cut {
		return
	}
	d := w.between(time.Second, 20*time.Second)
	if w.chance(4) {
		d = w.between(20*time.Second, 40*time.Second)
	}
	w.tellf("%s is cut off for %s", m.id, d)
	m.link.cut = true
	w.after(d, m.id+" is connected again", func() { m.link.cut = false })
}

// removeHost removes a host from the ledger by force, while its agent and engines go on.
func (w *World) removeHost() {
	m := w.anyHost()
	w.operate("deregister by force", m.id, func(l *ledger.Ledger, now ledger.Instant) {
		_ = l.Deregister(now, m.id, true) // an unknown host is fine
	})
}

// killSomething kills an engine, as an operator or the kernel would.
func (w *World) killSomething() {
	m := w.anyHost()
	pids := m.pids()
	if len(pids) == 0 {
		return
	}
	pid, how := pids[w.rng.IntN(len(pids))], "is killed with -9"
	if w.chance(3) {
		w.truth.of(m.processes[pid].id).outOfMemory = true
		how = "is killed for lack of memory"
	}
	m.exit(pid, how)
}

// mute cordons, drains or opens a host.
func (w *World) mute() {
	id := w.anyHost().id
	switch w.rng.IntN(3) { // an unknown host is fine
	case 0:
		w.operate("cordon", id, func(l *ledger.Ledger, now ledger.Instant) { _, _ = l.Cordon(now, id, "test") })
	case 1:
		var deadline *time.Duration
		if w.chance(2) {
			deadline = new(w.between(0, 10*time.Second))
		}
		w.operate("drain", id, func(l *ledger.Ledger, now ledger.Instant) { _, _ = l.Drain(now, id, "test", deadline) })
	default:
		w.operate("uncordon", id, func(l *ledger.Ledger, now ledger.Instant) { _, _ = l.Uncordon(now, id) })
	}
}

// operate sends an operator's command once, whether or not it arrives.
func (w *World) operate(what, host string, f func(*ledger.Ledger, ledger.Instant)) {
	w.tellf("operator: %s %s", what, host)
	w.operator.call(0, func(c *coord, reply func(answer)) func() {
		c.operate(reply, f)
		return nil
	}, func(any) {})
}

// endFaults ends all faults: what is down comes up, what is cut is joined, what is stopped
// continues, and nobody asks for more.
func (w *World) endFaults() {
	w.calm = true
	w.moderate()
	w.mendCoordinators()
	w.mendClusters()
	for _, m := range w.hosts {
		m.link.cut = false
		if !m.agent.up() {
			m.agent.boot()
		}
	}
	w.reopen()
}

// reopen opens all hosts, and has all clusters read.
func (w *World) reopen() {
	for _, m := range w.hosts {
		w.insist(func(l *ledger.Ledger, now ledger.Instant) { _, _ = l.Uncordon(now, m.id) })
	}
	for _, e := range w.clusters {
		if !e.fixed {
			w.insist(e.put())
		}
	}
}

// insist repeats an operator's command until it has succeeded.
func (w *World) insist(f func(*ledger.Ledger, ledger.Instant)) {
	w.operator.insist(func(c *coord, reply func(answer)) func() {
		c.operate(reply, f)
		return nil
	}, func() {})
}
