package sim

import (
	"errors"
	"time"
)

// rpcTimeout is how long a caller waits for an answer that does not come, beyond what it asked to
// wait.
const rpcTimeout = 3 * time.Second

// link is the connection between a caller and the coordinators. The caller stays with one
// coordinator as long as it answers.
type link struct {
	w       *World
	name    string
	at      int    // the coordinator that it talks to
	cut     bool   // from all of them
	cutFrom []bool // by the coordinator's number
}

func (w *World) newLink(name string) *link {
	return &link{w: w, name: name, at: w.rng.IntN(len(w.coords)), cutFrom: make([]bool, len(w.coords))}
}

func (l *link) reaches(c *coord) bool { return !l.cut && !l.cutFrom[c.number] }

// request is what a caller sends.
type request struct {
	// serve runs at the coordinator that leads. reply sends the answer back. withdraw, if it is
	// not nil, runs when the caller has gone.
	serve    func(c *coord, reply func(answer)) (withdraw func())
	patience time.Duration // how long the caller is willing to wait for the decision
	// forwarded says that a standby has passed it on; that happens only once.
	forwarded bool
}

// answer is the answer of a coordinator.
type answer struct {
	value any
	// broken is why the outcome is unknown; value means nothing then.
	broken error
	// epoch and revision are those of the batch with the answer. They are not sent: only the
	// simulation knows them.
	epoch, revision uint64
}

// errUnavailable is what a caller gets if the outcome of its call is unknown.
var errUnavailable = errors.New("unavailable")

// call sends a request to a coordinator. done runs at the caller exactly once: with the answer, or
// with nil if it is unknown. Requests and answers may be lost, late or repeated, and overtake each
// other.
func (l *link) call(patience time.Duration, serve func(c *coord, reply func(answer)) (withdraw func()), done func(value any)) {
	l.callAndListen(patience, serve, done, func(any) {})
}

// callAndListen is call for a caller that keeps listening: late gets what arrives after done has
// run.
func (l *link) callAndListen(patience time.Duration, serve func(c *coord, reply func(answer)) (withdraw func()), done, late func(value any)) {
	w := l.w
	c := w.coords[l.at]
	asked := w.store.mark()
	finished := false
	finish := func(a answer) {
		first := !finished
		finished = true
		switch {
		case a.broken == nil && first:
			w.checkFresh(l.name, asked, a)
			done(a.value)
		case a.broken == nil:
			late(a.value)
		case first:
			l.at = w.rng.IntN(len(w.coords))
			done(nil)
		}
	}
	deliver := func() {
		switch {
		case !l.reaches(c):
		case !c.up():
			w.after(w.latency(), "", func() { finish(answer{broken: errUnavailable}) })
		default:
			q := &request{serve: serve, patience: patience}
			c.wake(c.incarnation, func() { c.receive(q, func(a answer) { l.deliver(c, a, finish) }) })
		}
	}
	if !l.lost() {
		w.after(w.latency(), "", deliver)
	}
	if !w.calm && w.chance(40) {
		w.tellf("%s: a request is repeated", l.name)
		w.after(w.latency()+w.between(0, time.Duration(1+w.rng.IntN(30))*time.Second), "", deliver)
	}
	w.after(patience+rpcTimeout, "", func() { finish(answer{broken: errUnavailable}) })
}

// deliver brings an answer back.
func (l *link) deliver(from *coord, a answer, finish func(answer)) {
	w := l.w
	if l.lost() {
		w.tellf("%s: an answer of %s is lost", l.name, from.name)
		return
	}
	took := w.latency()
	if !w.calm && w.chance(40) {
		took += w.between(0, 4*rpcTimeout)
	}
	w.after(took, "", func() {
		if l.reaches(from) {
			finish(a)
		}
	})
}

// insist repeats a call until it is answered.
func (l *link) insist(serve func(c *coord, reply func(answer)) (withdraw func()), done func()) {
	l.call(0, serve, func(value any) {
		if value == nil {
			l.w.after(500*time.Millisecond, "", func() { l.insist(serve, done) })
			return
		}
		done()
	})
}

func (l *link) lost() bool { return l.cut || l.w.drops() }

// drops draws whether a message is lost.
func (w *World) drops() bool { return !w.calm && w.chance(25) }

// latency is short, and once in a while long enough to change the order of things.
func (w *World) latency() time.Duration {
	if !w.calm && w.chance(10) {
		return w.between(0, 2*time.Second)
	}
	return w.between(200*time.Microsecond, 5*time.Millisecond)
}
