package sim

import (
	"time"

	"github.com/bursar/bursar/coordinator/ledger"
)

// launchReaders starts those who only look, at any coordinator.
func (w *World) launchReaders() {
	for _, name := range []string{"reader1", "reader2"} {
		w.read(w.newLink(name))
	}
}

// read looks at the books again and again, each time wherever it likes.
func (w *World) read(l *link) {
	w.after(w.between(100*time.Millisecond, 3*time.Second), "", func() {
		if w.calm {
			return
		}
		l.at = w.rng.IntN(len(w.coords))
		l.call(0, serveRead, func(any) { w.read(l) })
	})
}

// serveRead answers a consistent read.
func serveRead(c *coord, reply func(answer)) (hangUp func()) {
	c.operate(reply, func(*ledger.Ledger, ledger.Instant) {})
	return nil
}

// checkFresh holds that an answer is no older than what was durable when it was asked for: whoever leads no more must not
// answer from the past, reads and refusals included.
func (w *World) checkFresh(who string, asked mark, a answer) {
	if w.store.restored != asked.restored {
		return // there is another past
	}
	if a.revision < asked.revision {
		w.failf(4, "%s was answered from revision %d, in epoch %d, and %d was durable when it asked", who, a.revision, a.epoch, asked.revision)
	}
	if a.epoch < w.store.known.epoch {
		w.tally.Late++
	}
}

// probe asks every coordinator, when the world is at rest: each must answer.
func (w *World) probe() {
	for _, c := range w.coords {
		l := w.newLink("probe")
		l.at = c.number
		l.call(0, serveRead, func(value any) {
			if value == nil {
				w.failf(7, "%s does not answer when all is well", c.name)
			}
		})
	}
}
