package sim

import (
	"time"

	"github.com/bursar/bursar/agent/once"
	"github.com/bursar/bursar/coordinator/core"
	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/orders"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

const (
	lookAtStream = 200 * time.Millisecond // how often either end looks at its stream
	silence      = 4 * time.Second        // after which an agent gives a stream up
)

// attachment is the stream of orders between one incarnation of an agent and a coordinator.
type attachment struct {
	a           *agent
	run         int    // of the agent
	incarnation uint64 // of the agent
	c           *coord
	process     int // of the coordinator
	stream      *orders.Stream
	heard       time.Time // by the agent
	broken      bool      // nothing comes any more
}

// attach keeps a stream to a leader, as long as this process of the agent lives.
func (a *agent) attach(run int) {
	w := a.machine.w
	w.after(lookAtStream, "", func() {
		switch t := a.stream; {
		case a.run != run:
			return
		case t == nil:
			a.openStream(&attachment{a: a, run: run, incarnation: a.machine.disk.incarnation, c: w.anyCoordinator(), heard: w.now})
		case w.now.Sub(t.heard) >= silence:
			t.drop()
		case t.lives():
			t.heard = w.now
		}
		a.attach(run)
	})
}

// drop ends a stream at the agent.
func (t *attachment) drop() {
	if t.broken = true; t.a.stream == t {
		t.a.stream = nil
	}
}

// lives reports whether something can come by the stream.
func (t *attachment) lives() bool {
	return !t.broken && t.c.incarnation == t.process && t.c.up() && !t.c.paused && t.a.machine.link.reaches(t.c)
}

// openStream asks a coordinator for a stream. The request may be late, so that another incarnation
// of the agent has come meanwhile.
func (a *agent) openStream(t *attachment) {
	w, c, m := a.machine.w, t.c, a.machine
	if !m.link.reaches(c) || !c.up() {
		return
	}
	a.stream, t.process = t, c.incarnation
	took := w.latency()
	if !w.calm && w.chance(4) {
		took += w.between(0, silence)
	}
	w.after(took, "", func() {
		c.wake(t.process, func() {
			if !c.core.Leading() || c.stopping {
				t.drop()
				return
			}
			var refused error
			c.do(&core.Call{
				Do: core.OnLedger(func(l *ledger.Ledger, _ ledger.Instant) { refused = l.MayAttach(m.id, t.incarnation) }),
				Done: func(err error) {
					if err != nil || refused != nil {
						t.drop()
						return
					}
					t.opened()
				},
			})
		})
	})
}

// opened opens the stream at the coordinator. It holds that no stream of an earlier incarnation
// takes the place of that of a later one.
func (t *attachment) opened() {
	c, host := t.c, t.a.machine.id
	stream, err := c.hub.Open(host, t.incarnation)
	if err != nil {
		t.a.machine.w.tellf("%s: a stream of incarnation %d is refused: %v", host, t.incarnation, err)
		t.drop()
		return
	}
	if before := c.streams[host]; before != nil && before.incarnation > t.incarnation {
		c.w.failf(startsInvariant, "%s: the stream of incarnation %d of %s has replaced that of %d", c.name, t.incarnation, host, before.incarnation)
	}
	t.stream, t.heard = stream, c.w.now
	c.streams[host] = t
	t.serve()
}

// serve sends the orders of the stream, until it ends.
func (t *attachment) serve() {
	t.c.then(lookAtStream, func() {
		order, err := t.c.hub.Poll(t.stream)
		switch {
		case err != nil, t.a.run != t.run, t.broken && t.a.stream != t: // the agent has closed its end
			t.leave()
			return
		case order != nil:
			t.send(order)
		}
		t.serve()
	})
}

// leave ends the stream at the coordinator.
func (t *attachment) leave() {
	t.c.hub.Leave(t.stream)
	if host := t.a.machine.id; t.c.streams[host] == t {
		delete(t.c.streams, host)
	}
	t.drop()
}

// send brings an order to the agent: late, or lost with the stream, or twice.
func (t *attachment) send(order *bursarv1.AttachResponse) {
	w := t.a.machine.w
	if w.drops() {
		t.c.tellf("an order for %s is lost", order.GetLaunch().GetAllocationId())
		t.broken = true
	}
	w.after(w.latency(), "", func() {
		if t.lives() && t.a.run == t.run {
			t.a.take(order)
		}
	})
	if !w.calm && w.chance(3) {
		w.after(w.between(0, time.Duration(1+w.rng.IntN(20))*time.Second), "", func() { t.a.take(order) })
	}
}

// take takes an order, once. One that is repeated gets the answer of before.
func (a *agent) take(order *bursarv1.AttachResponse) {
	m := a.machine
	if !a.up() {
		return
	}
	if err := once.CheckEpoch(order.GetEpoch(), a.t.Epoch()); err != nil {
		m.w.tellf("%s: %v", m.id, err)
		if a.stream != nil {
			a.stream.drop()
		}
		return
	}
	if order.GetEpoch() < m.epoch {
		m.w.failf(6, "%s takes an order of epoch %d, and has seen %d", m.id, order.GetEpoch(), m.epoch)
	}
	key := once.Key{AllocationID: order.GetLaunch().GetAllocationId(), GrantRevision: order.GetLaunch().GetGrantRevision()}
	switch answer, known := a.taken.Take(key); known {
	case once.New:
		(&launch{a: a, key: key, run: a.run, spec: order.GetLaunch().GetSpec(), deadline: m.w.now.Add(grantPatience)}).grant()
	case once.Answered:
		answer()
	case once.UnderWay:
	}
}
