package sim

import (
	"fmt"
	"slices"
	"time"

	"github.com/bursar/bursar/label"
	"github.com/bursar/bursar/resource"
)

// application is an application that runs in a YARN cluster.
type application struct {
	y     *yarn
	id    string
	owner *attempt // nil: another's, who is not ours
	at    queueKey
	size  amount        // of one container
	most  int           // containers
	on    [machines]int // how many there are on each machine
	over  bool
	// gave is when it last gave something back, or moved away.
	gave time.Time
	// survives: it goes on for a while when its engine has ended.
	survives bool
	orphan   time.Time // it ends then; zero: it has an engine
}

// allocation is the one that it was started under; empty if there is none.
func (a *application) allocation() string {
	if a.owner == nil {
		return ""
	}
	return a.owner.id
}

// user is whom it runs as.
func (a *application) user() string {
	if a.owner == nil {
		return "another"
	}
	return a.owner.command.Labels.Value(label.User)
}

// count is the number of containers on machines that have reported.
func (a *application) count() (n int) {
	for i, on := range a.on {
		if a.y.back[i] {
			n += on
		}
	}
	return n
}

func (a *application) held() amount { return a.size.times(int64(a.count())) }

// steady reports whether the application neither grows nor moves at the moment. A coordinator may
// still report or use what it had before it gave something back. If two reports in a row show the
// same use, it is taken to be in the queues of the second report; an application that was
// somewhere else in between would make that wrong. Nobody uses a report that is too old.
func (a *application) steady() bool {
	before := func(s *snapshot) bool { return s.from == a.y && !s.at.After(a.gave) }
	for _, c := range a.y.w.coords {
		if !c.up() {
			continue
		}
		if slices.ContainsFunc(c.rounds, func(r *round) bool { return before(r.got) }) {
			return true
		}
		for _, s := range c.standing {
			if before(s.snapshot) && c.ledgerTime() < s.report.Asked.Add(s.report.GoodFor) {
				return true
			}
		}
	}
	return false
}

// submit starts an application; nil if the cluster refuses it.
func (y *yarn) submit(owner *attempt, at queueKey, size amount, most int) *application {
	if y.passive || y.away {
		return nil
	}
	q := y.queues[at.path]
	if above := y.queues[parent(at.path)]; q == nil && above != nil && above.creates && at.partition == "" {
		q = y.add(at.path)
		q.made = true
	}
	if q == nil || q.stopped {
		return nil
	}
	if _, there := q.limits[at.partition]; !there {
		return nil
	}
	y.last++
	a := &application{y: y, id: fmt.Sprintf("application_%s_%d_%04d", y.address, y.run, y.last), owner: owner, at: at, size: size, most: most}
	a.survives = y.w.chance(4)
	y.apps = append(y.apps, a)
	y.known[a.id] = a
	return a
}

// grow adds a container, if the queue has room for it.
func (a *application) grow() bool {
	if !a.y.complete() || a.y.passive || !a.y.fits(a.at, a.size) {
		return false
	}
	a.on[a.y.w.rng.IntN(machines)]++
	return true
}

// shrink gives so many containers back.
func (a *application) shrink(n int) {
	for range n {
		for i := range a.on {
			if a.on[i] > 0 {
				a.on[i]--
				break
			}
		}
	}
	a.gave = a.y.w.now
}

// end ends an application.
func (a *application) end() {
	if a.over {
		return
	}
	a.over, a.on = true, [machines]int{}
	a.y.apps = slices.DeleteFunc(a.y.apps, func(other *application) bool { return other == a })
	if a.owner != nil {
		a.y.tellf("%s of %s ends", a.id, a.owner.id)
	}
}

// live makes everything that runs in the cluster do something now and then, until the world rests.
func (y *yarn) live() {
	w := y.w
	w.after(w.between(300*time.Millisecond, 900*time.Millisecond), "", func() {
		if w.resting {
			return
		}
		others := 0
		for _, a := range slices.Clone(y.apps) {
			if a.owner == nil {
				others++
			}
			a.step()
		}
		if others < 5 && w.chance(3) {
			y.another()
		}
		for _, path := range y.paths() {
			used := func(a *application) bool { return a.at.path == path }
			if y.queues[path].made && !slices.ContainsFunc(y.apps, used) && w.chance(10) {
				delete(y.queues, path)
			}
		}
		y.live()
	})
}

// another starts an application of another user.
func (y *yarn) another() {
	w := y.w
	at, there := y.anyPlace()
	if !there {
		return
	}
	size := amount{(1 + w.rng.Int64N(4)) * gib, w.rng.Int64N(3) * 1000, 0}
	if w.chance(6) {
		size[2] = 1
	}
	y.submit(nil, at, size, 1+w.rng.IntN(6))
}

// anyPlace is a queue without queues below it, in one of its partitions.
func (y *yarn) anyPlace() (queueKey, bool) {
	var places []queueKey
	for _, path := range y.paths() {
		if y.isParent(path) || path == probeQueue {
			continue
		}
		for _, partition := range []string{"", "fast"} {
			if _, there := y.queues[path].limits[partition]; there {
				places = append(places, queueKey{path, partition})
			}
		}
	}
	if len(places) == 0 {
		return queueKey{}, false
	}
	return places[y.w.rng.IntN(len(places))], true
}

// step makes an application do something, or nothing.
func (a *application) step() {
	w := a.y.w
	if a.owner != nil && a.owner.deserts() {
		if a.orphan.IsZero() {
			a.orphan = w.now.Add(w.between(0, 2*time.Second))
			if a.survives {
				a.orphan = a.orphan.Add(w.between(5*time.Second, 20*time.Second))
			}
		}
		if !w.now.Before(a.orphan) {
			a.end()
		}
		return
	}
	all := a.count()
	switch n := w.rng.IntN(40); {
	case n < 14 && all < a.most && !a.steady():
		a.grow()
	case n < 17 && all > 0 && a.y.complete():
		a.shrink(1 + w.rng.IntN(all))
	case n == 18 && (a.owner == nil || w.chance(3)):
		a.end()
	case n == 19 && !a.steady() && w.chance(3):
		a.move()
	}
}

// move moves an application to another queue, with what it holds.
func (a *application) move() {
	to, there := a.y.anyPlace()
	if !there || to.partition != a.at.partition || to.path == a.at.path || a.y.passive || !a.y.complete() || !a.y.fits(to, a.held()) {
		return
	}
	if a.y.brief && a.owner != nil && slices.ContainsFunc(a.owner.parts, func(part resource.External) bool {
		return part.Path == to.path && part.Partition != to.partition
	}) {
		return // else nobody could tell
	}
	if a.owner != nil {
		a.y.tellf("%s of %s moves from %s to %s", a.id, a.owner.id, a.at.path, to.path)
	}
	a.at = to
	a.gave = a.y.w.now
}
