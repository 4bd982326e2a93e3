package sim

import "time"

// link is a way between a caller and the coordinator.
type link struct {
	w    *World
	name string
	cut  bool
}

// rpcTimeout is how long a caller waits for an answer that does not come, beyond what it asked to wait.
const rpcTimeout = 3 * time.Second

// call sends a request to the coordinator: serve is run there, at some time, with a function that sends the answer
// back; done is run at the caller exactly once, with an answer or without one. Requests and answers may be lost, late or
// repeated, and pass each other. hangUp, which serve returns, is run at the coordinator when it notices that the
// caller has gone.
func (l *link) call(patience time.Duration, serve func(reply func(answer any)) (hangUp func()), done func(answer any)) {
	w := l.w
	finished := false
	finish := func(answer any) {
		if !finished {
			finished = true
			done(answer)
		}
	}
	deliver := func() {
		incarnation := w.coord.incarnation
		if l.cut || !w.coord.up() {
			return
		}
		hangUp := serve(func(answer any) {
			if l.lost() {
				w.tellf("%s: an answer is lost", l.name)
				return
			}
			w.after(w.latency(), "", func() {
				if !l.cut {
					finish(answer)
				}
			})
		})
		w.after(patience+rpcTimeout+w.between(0, time.Second), "", func() {
			if hangUp != nil && w.coord.up() && w.coord.incarnation == incarnation {
				hangUp()
			}
		})
	}
	if !l.lost() {
		w.after(w.latency(), "", deliver)
	}
	if !w.calm && w.chance(40) {
		w.tellf("%s: a request is repeated", l.name)
		w.after(w.latency()+w.between(0, time.Duration(1+w.rng.IntN(30))*time.Second), "", deliver)
	}
	w.after(patience+rpcTimeout, "", func() { finish(nil) })
}

func (l *link) lost() bool { return l.cut || (!l.w.calm && l.w.chance(25)) }

// latency is short, and once in a while long enough to change the order of things.
func (w *World) latency() time.Duration {
	if !w.calm && w.chance(10) {
		return w.between(0, 2*time.Second)
	}
	return w.between(200*time.Microsecond, 5*time.Millisecond)
}
