package sim

import (
	"fmt"
	"time"

	"github.com/bursar/bursar/coordinator/ledger"
)

// external is a cluster as coordinators know it: a name, and the YARN cluster that its provider's
// settings point at.
type external struct {
	w    *World
	name ledger.ClusterName
	// yarns are those that the settings may point at; they have the same queues.
	yarns []*yarn
	at    int  // the one that the operator means
	turn  int  // of the settings
	fixed bool // configured in a file
	// standard: the operator wants it to be the default.
	standard bool
}

// drawClusters draws the clusters of a world; many worlds have none.
func (w *World) drawClusters() {
	n := []int{0, 1, 1, 2}[w.rng.IntN(4)]
	for i := range n {
		e := &external{w: w, name: ledger.ClusterName{Kind: "yarn", Cluster: fmt.Sprintf("y%d", i+1)}, fixed: w.chance(4)}
		e.standard = n > 1 && i == 0 && !w.chance(4)
		duplicates, labels := w.chance(4), w.chance(2)
		for j := range 1 + w.rng.IntN(2) {
			e.yarns = append(e.yarns, newYarn(w, fmt.Sprintf("%s%c", e.name.Cluster, 'a'+j), duplicates, labels))
		}
		w.clusters = append(w.clusters, e)
	}
}

// launchClusters starts the clusters and their readers.
func (w *World) launchClusters() {
	for _, e := range w.clusters {
		for _, y := range e.yarns {
			y.live()
		}
		if !e.fixed {
			w.insist(e.put())
		}
	}
}

// fixed are the providers of the coordinators' files.
func (w *World) fixed() (records []ledger.ProviderRecord) {
	for _, e := range w.clusters {
		if e.fixed {
			r := e.record()
			r.Source = "file:providers"
			records = append(records, r)
		}
	}
	return records
}

// current is the YARN that engines are to use.
func (e *external) current() *yarn { return e.yarns[e.at] }

// interval, settle and timeout are those of all providers.
const (
	interval = 2 * time.Second
	settle   = 5 * time.Second
	timeout  = 3 * time.Second
)

// record is the provider as the operator wants it.
func (e *external) record() ledger.ProviderRecord {
	return ledger.ProviderRecord{ClusterName: e.name, Default: e.standard, Settings: map[string]string{
		"addresses": e.current().address, "interval": (interval + time.Duration(e.turn%3)*time.Second).String(), "timeout": timeout.String(),
		"maxAge": "8s", "settle": settle.String(),
	}}
}

// put configures the provider as the operator wants it now.
func (e *external) put() func(*ledger.Ledger, ledger.Instant) {
	record := e.record()
	e.w.tellf("operator: %s is to be read at %s", e.name, e.current().address)
	// A provider from a file stays.
	return func(l *ledger.Ledger, now ledger.Instant) { _ = l.PutProvider(now, record) }
}

// yarnOf is the cluster that the settings of a provider point at.
func (w *World) yarnOf(record *ledger.ProviderRecord) *yarn {
	for _, e := range w.clusters {
		for _, y := range e.yarns {
			if y.address == record.Settings["addresses"] {
				return y
			}
		}
	}
	panic("sim: no cluster at " + record.Settings["addresses"])
}

// launchClusterFaults makes things go wrong with the clusters and their providers.
func (w *World) launchClusterFaults() {
	for _, e := range w.clusters {
		for _, y := range e.yarns {
			w.plan(30*time.Second, func() { y.goAway(w.between(time.Second, 15*time.Second)) })
			w.plan(40*time.Second, y.failOver)
			w.every(20*time.Second, func() { y.slow = !y.slow && w.chance(2) })
			w.plan(15*time.Second, y.changeQueue)
		}
		w.plan(40*time.Second, e.change)
	}
}

// goAway makes a cluster unreachable for a while. What runs there goes on.
func (y *yarn) goAway(d time.Duration) {
	if y.away {
		return
	}
	y.tellf("is away for %s", d)
	y.away = true
	y.w.after(d, "", func() { y.away = false })
}

// failOver makes another ResourceManager take over, or restarts the same one. For a while none is
// active, then it knows no machine; the machines come back one by one. A machine may die at that
// time, and sometimes the applications are forgotten.
func (y *yarn) failOver() {
	w := y.w
	if y.passive || !y.complete() {
		return
	}
	y.passive, y.slow = true, true
	forgets, most := w.chance(4), 6*time.Second
	if w.chance(2) { // nobody may notice
		most = 300 * time.Millisecond
	}
	d := w.between(0, most)
	y.tellf("fails over, none is in charge for %s, forgets: %t", d, forgets)
	w.after(d, "", func() {
		w.tally.Failovers++
		y.run++
		y.passive = false
		dead := -1
		if w.chance(4) {
			dead = w.rng.IntN(machines)
		}
		for i := range y.back {
			y.back[i] = false
			if i == machines-1 {
				most = 6 * time.Second
			}
			w.after(w.between(0, most), "", func() {
				y.back[i] = true
				if y.complete() {
					y.tellf("all machines are back")
				}
			})
		}
		for _, a := range append([]*application(nil), y.apps...) {
			if dead >= 0 {
				a.on[dead] = 0
				a.gave = w.now
			}
			if forgets {
				a.end()
				delete(y.known, a.id)
			}
		}
	})
}

// changeQueue stops or opens a queue, makes it smaller or larger, removes it or brings one back.
func (y *yarn) changeQueue() {
	w := y.w
	paths := y.paths()
	path := paths[w.rng.IntN(len(paths))]
	q := y.queues[path]
	switch n := w.rng.IntN(8); {
	case n < 2 && path != "root":
		q.stopped = !q.stopped
		y.tellf("queue %s: stopped %t", path, q.stopped)
	case n < 5:
		for _, partition := range []string{"", "fast"} {
			if _, there := q.limits[partition]; there && path != "root" {
				q.limits[partition] = y.drawLimit(path, partition)
			}
		}
		y.tellf("queue %s: another limit", path)
	case n < 7 && (path == "root.b" || path == "root.a.a2"):
		y.remove(path)
	default:
		for _, path := range []string{"root.b", "root.a.a2"} {
			if y.queues[path] == nil {
				y.tellf("queue %s is there again", path)
				y.add(path)
			}
		}
	}
}

// remove removes a queue with all that runs there.
func (y *yarn) remove(path string) {
	y.tellf("queue %s is removed", path)
	for _, a := range append([]*application(nil), y.apps...) {
		if a.at.path == path {
			a.end()
		}
	}
	delete(y.queues, path)
}

// change changes the provider: it is gone for a while, or gets another interval, another cluster
// behind the same name, or another default.
func (e *external) change() {
	w := e.w
	switch w.rng.IntN(4) {
	case 0:
		w.operate("delete provider", e.name.String(), func(l *ledger.Ledger, now ledger.Instant) {
			// A provider from a file stays, and a missing one is fine.
			_ = l.DeleteProvider(now, e.name)
		})
		w.after(w.between(0, 10*time.Second), "", func() { w.insist(e.put()) })
		return
	case 1:
		e.turn++
	case 2:
		if !e.fixed {
			e.at = (e.at + 1) % len(e.yarns)
		}
	case 3:
		e.standard = e.w.clusters[0] == e && len(e.w.clusters) > 1 && !e.standard
	}
	w.operate("change provider", e.name.String(), e.put())
}

// mendClusters ends all faults of the clusters.
func (w *World) mendClusters() {
	for _, e := range w.clusters {
		for _, y := range e.yarns {
			y.slow, y.away = false, false
			for _, q := range y.queues {
				q.stopped = false
			}
		}
	}
}
