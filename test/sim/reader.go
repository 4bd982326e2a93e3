package sim

import (
	"time"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/resource"
)

// launchReaders starts callers that only read, at any coordinator.
func (w *World) launchReaders() {
	for _, name := range []string{"reader1", "reader2"} {
		w.read(w.newLink(name))
	}
}

// read reads the ledger again and again, each time at any coordinator.
func (w *World) read(l *link) {
	w.after(w.between(100*time.Millisecond, 3*time.Second), "", func() {
		if w.calm {
			return
		}
		l.at = w.rng.IntN(len(w.coords))
		l.call(0, w.readRequest(), func(any) { w.read(l) })
	})
}

// readRequest is a reader's question: the state of the clusters, and what a request would meet.
func (w *World) readRequest() func(c *coord, reply func(answer)) (withdraw func()) {
	if len(w.clusters) == 0 || !w.chance(3) {
		return serveRead
	}
	a := (&launcher{w: w, name: "reader"}).draw()
	return func(c *coord, reply func(answer)) (withdraw func()) {
		c.operate(reply, func(l *ledger.Ledger, now ledger.Instant) {
			before := len(l.Clusters())
			l.Queues(resource.Address{}, func(q ledger.QueueInfo) bool {
				if same, err := l.Queue(q.Address); err != nil || same.Address.Path != q.Address.Path {
					w.failf(2, "queue %s is found as %s: %v", q.Address, same.Address, err)
				}
				return true
			})
			_, _ = l.Explain(now, a.command) // there may be nothing to explain
			if after := len(l.Clusters()); after != before {
				w.failf(3, "of %d clusters %d are left after one was asked about", before, after)
			}
			c.audited = 0
		})
		return nil
	}
}

// serveRead answers a consistent read.
func serveRead(c *coord, reply func(answer)) (withdraw func()) {
	c.operate(reply, func(*ledger.Ledger, ledger.Instant) {})
	return nil
}

// checkFresh holds that an answer is no older than what was durable when the question was asked: a
// coordinator that no longer leads must not answer from the past, in reads and in refusals.
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
