package sim

import "time"

// launchOutages makes things go wrong with the coordinators and what they depend on, each kind at
// its own rate.
func (w *World) launchOutages() {
	w.plan(25*time.Second, func() { w.leaderOrAny().killAndRestart() })
	w.plan(40*time.Second, func() { w.anyCoordinator().shutDown() })
	w.plan(20*time.Second, func() { w.leaderOrAny().pause(w.drawPause()) })
	w.plan(25*time.Second, w.isolate)
	w.plan(30*time.Second, func() { w.consul.restart(w.between(time.Second, 10*time.Second)) })
	w.plan(40*time.Second, func() { w.store.goAway(w.between(100*time.Millisecond, 8*time.Second), func() {}) })
	w.plan(60*time.Second, w.rollOver)
	w.every(20*time.Second, func() { w.store.slow = !w.store.slow })
	w.commitFaults = []int{0, 100, 1000}[w.rng.IntN(3)]
	w.hiccups = []int{0, 500, 2000}[w.rng.IntN(3)]
	if w.chance(3) && w.starts == nil { // not in every world: what was undone is not checked
		w.every(8*time.Second, w.store.backUp)
		w.every(35*time.Second, w.store.putBack)
		w.every(80*time.Second, w.moveStore)
	}
}

func (w *World) anyCoordinator() *coord { return w.coords[w.rng.IntN(len(w.coords))] }

// leaderOrAny is the coordinator that leads, or believes to, more often than by chance.
func (w *World) leaderOrAny() *coord {
	c := w.anyCoordinator()
	for range 3 {
		if c.up() && c.core.Leading() {
			break
		}
		c = w.anyCoordinator()
	}
	return c
}

// drawPause is how long a process is stopped: often for about the lifetime of its lock.
func (w *World) drawPause() time.Duration {
	if w.chance(3) {
		return w.between(10*time.Millisecond, 2*time.Second)
	}
	return w.between(2*time.Second, 12*time.Second)
}

// isolate cuts a coordinator off from some of what it is connected to, in any combination.
func (w *World) isolate() {
	c := w.leaderOrAny()
	d := w.between(500*time.Millisecond, 15*time.Second)
	cuts := 1 + w.rng.IntN(15)
	from := ""
	cut := func(bit int, what string, set func(bool)) {
		if cuts&bit != 0 {
			from += " " + what
			set(true)
			w.after(d, "", func() { set(false) })
		}
	}
	cut(1, "consul", func(on bool) { c.cutConsul = on })
	cut(2, "store", func(on bool) { c.cutStore = on })
	cut(4, "peers", func(on bool) {
		for _, other := range w.coords {
			c.cutPeers[other.number], other.cutPeers[c.number] = on, on
		}
	})
	some := w.rng.Uint64()
	cut(8, "callers", func(on bool) {
		for i, l := range w.links() {
			if some>>i&1 == 1 {
				l.cutFrom[c.number] = on
			}
		}
	})
	w.tellf("%s is cut off from%s for %s", c.name, from, d)
}

// links are those of everybody who calls.
func (w *World) links() []*link {
	links := []*link{w.operator}
	for _, m := range w.hosts {
		links = append(links, m.link)
	}
	return append(links, w.gateways...)
}

// rollOver shuts the coordinators down one after the other, as an upgrade does.
func (w *World) rollOver() {
	w.tellf("operator: restart all coordinators, one by one")
	for i, c := range w.coords {
		w.after(time.Duration(i)*w.between(2*time.Second, 6*time.Second), "", c.shutDown)
	}
}

// moveStore copies the store to another place, in its present state or from a backup.
func (w *World) moveStore() {
	w.store.backUp()
	b := w.store.backups[len(w.store.backups)-1]
	if w.chance(2) {
		b = w.store.backups[w.rng.IntN(len(w.store.backups))]
	}
	w.store.copyTo(b)
}

// mendCoordinators ends every outage.
func (w *World) mendCoordinators() {
	w.consul.mend()
	w.store.slow = false
	for _, c := range w.coords {
		c.cutStore, c.cutConsul = false, false
		clear(c.cutPeers)
		c.proceed()
	}
	for _, l := range w.links() {
		clear(l.cutFrom)
	}
}
