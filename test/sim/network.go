package sim

import (
	"errors"
	"time"
)

// rpcTimeout is how long a caller waits for an answer that does not come, beyond what it asked to wait.
const rpcTimeout = 3 * time.Second

// link is the way between a caller and the coordinators. The caller stays with one as long as that one answers.
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
	// serve does it at the coordinator that leads. reply sends the answer back; hangUp, where it is not nil, is run when the
	// caller has gone.
	serve     func(c *coord, reply func(answer)) (withdraw func())
	patience  time.Duration // how long the caller is willing to wait for the decision
	forwarded bool          // by a standby; it is not passed on once more
}

// answer is what a coordinator says.
type answer struct {
	value any
	// broken is why nothing is known of what was asked; value means nothing then.
	broken error
	// epoch and revision are of the batch that covers the answer. They are not sent: the simulation knows them.
	epoch, revision uint64
}

// errUnavailable is what a caller gets when nothing is known of its call.
var errUnavailable = errors.New("unavailable")

// call sends a request to a coordinator. done is run at the caller exactly once: with what was answered, or with nil where
// nothing is known. Requests and answers may be lost, late or repeated, and pass each other.
func (l *link) call(patience time.Duration, serve func(c *coord, reply func(answer)) (withdraw func()), done func(value any)) {
	l.callAndListen(patience, serve, done, func(any) {})
}

// callAndListen is call by somebody who does not close the door: late gets what arrives after done was run.
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
