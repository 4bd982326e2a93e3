package sim

import (
	"time"

	"github.com/bursar/bursar/coordinator"
	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/label"
	"github.com/bursar/bursar/resource"
)

// launchFaults lets things go wrong at random moments, each kind at its own pace. A world draws which kinds it has and how
// often: where everything fails all the time, what takes a while never happens.
func (w *World) launchFaults() {
	w.plan(20*time.Second, func() { w.coord.crash() })
	w.plan(15*time.Second, func() { w.anyHost().agent.crashAndRestart() })
	w.plan(60*time.Second, func() { w.anyHost().reboot() })
	w.plan(20*time.Second, func() { w.cutOff(w.anyHost()) })
	w.plan(30*time.Second, func() { w.anyHost().resize() })
	w.plan(90*time.Second, w.removeHost)
	w.every(5*time.Second, w.killSomething)
	w.every(15*time.Second, w.operate)
	w.every(30*time.Second, w.changeRules)
	w.commitFaults = []int{0, 100, 1000}[w.rng.IntN(3)]
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

// cutOff cuts a host's link for a while, sometimes for so long that it is given up.
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

// removeHost takes a host out of the books by force, while its agent and engines go on.
func (w *World) removeHost() {
	if !w.coord.up() {
		return
	}
	m := w.anyHost()
	w.tellf("operator: deregister %s by force", m.id)
	w.coord.do(&coordinator.Call{Done: func(error) {}, Do: func(l *ledger.Ledger, now ledger.Instant) {
		_ = l.Deregister(now, m.id, true) // an unknown host is fine
	}})
}

// killSomething kills an engine, as an operator or the kernel would.
func (w *World) killSomething() {
	m := w.anyHost()
	if pids := m.pids(); len(pids) > 0 {
		m.exit(pids[w.rng.IntN(len(pids))], "is killed with -9")
	}
}

// operate cordons, drains or opens a host.
func (w *World) operate() {
	m := w.anyHost()
	what := w.rng.IntN(3)
	if !w.coord.up() {
		return
	}
	w.tellf("operator: %s %s", []string{"cordon", "drain", "uncordon"}[what], m.id)
	w.coord.do(&coordinator.Call{Done: func(error) {}, Do: func(l *ledger.Ledger, now ledger.Instant) {
		switch what {
		case 0:
			_, _ = l.Cordon(now, m.id, "test") // an unknown host is fine
		case 1:
			_, _ = l.Drain(now, m.id, "test")
		default:
			_, _ = l.Uncordon(now, m.id)
		}
	}})
}

// changeRules puts other quotas in force.
func (w *World) changeRules() {
	if !w.coord.up() {
		return
	}
	quotas := w.drawRules()
	w.tellf("operator: %d other rules", len(quotas))
	w.coord.advance()
	w.files["file:rules"] = quotas
	if err := w.coord.core.SetFiles(w.instant(), w.files); err != nil {
		w.failf(3, "rules: %v", err)
		return
	}
	w.coord.pump()
}

// drawRules makes up quotas: for all users together, each of them, and one in particular.
func (w *World) drawRules() []ledger.Quota {
	var quotas []ledger.Quota
	add := func(selector string, memory int64) {
		s, err := label.ParseSelector(selector)
		if err != nil {
			panic(err)
		}
		quotas = append(quotas, ledger.Quota{Selector: s, Limit: resource.Vector{}.WithMemory(memory), Source: "file:rules"})
	}
	add("user=*", (4+w.rng.Int64N(20))*gib)
	if w.chance(2) {
		add("user=u1", (2+w.rng.Int64N(8))*gib)
	}
	if w.chance(2) {
		add("creator=*,user=*", (2+w.rng.Int64N(8))*gib)
	}
	if w.chance(3) {
		add("creator=IDE", (4+w.rng.Int64N(32))*gib)
	}
	return quotas
}

// settleDown ends all faults: what is down comes up, what is cut is joined, and nobody asks for more.
func (w *World) settleDown() {
	w.calm = true
	for _, m := range w.hosts {
		m.link.cut = false
		if !m.agent.up() {
			m.agent.boot()
		}
		if w.coord.up() {
			id := m.id
			w.coord.do(&coordinator.Call{Done: func(error) {}, Do: func(l *ledger.Ledger, now ledger.Instant) { _, _ = l.Uncordon(now, id) }})
		}
	}
}
