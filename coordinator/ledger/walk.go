package ledger

import (
	"slices"

	"github.com/bursar/bursar/resource"
)

// A queue is marked when its account has more to give. Then it is walked: each of its classes is
// tried once, in the order of the queue. A walk takes as many steps as it needs, and a mark stays
// until its walk is over. What the walk has tried stands behind all others of the queue until then.
// If the account has still more to give meanwhile, another walk follows.
const (
	// missesPerShare is how many classes of one share are tried without success in one queue, in
	// one step. Then the share is set aside there until the next step.
	missesPerShare = 8
	// missesPerTurn is how many classes of one queue are tried without success before other marked
	// queues have their turn.
	missesPerTurn = 8
	// missesPerStep and grantsPerStep bound the time of a step. A miss takes about a microsecond,
	// a grant two.
	missesPerStep = 64
	grantsPerStep = 512
	// queuesPerRound is how many marked queues have their turn at the same time: of these the one
	// whose first request goes first is tried. More are marked only if many accounts change at
	// once.
	queuesPerRound = 64
)

// step is the number of tries that are left to one step.
type step struct{ misses, grants int }

func (s *step) over() bool { return s.misses <= 0 || s.grants <= 0 }

// mark says that the account of a queue has more to give.
func (l *Ledger) mark(q *queue) {
	q.holderTried = false
	if !q.marked {
		q.marked = true
		l.marked = append(l.marked, q)
	} else if q.tried > 0 {
		q.again = true
	}
}

// grantWaiting grants waiting requests as far as the accounts that have more to give allow, in the
// order of priority, fair share and arrival. It does so before a later request is decided. If there
// is more to try than one step may take, the next steps go on, and NextTimer is now.
//
// If the batch is at its bound, the next batch goes on. Until then those who may wait stand behind
// those who were first.
func (l *Ledger) grantWaiting() {
	if l.Behind() {
		l.crowdedOut = len(l.marked) > 0
		return
	}
	l.freeUsers()
	left := l.visitStarved(visitsPerStep)
	if len(l.marked) == 0 {
		l.crowdedOut = false
		return
	}
	l.walk()
	l.visitStarved(left)
}

// walk goes on with the walks through the marked queues.
func (l *Ledger) walk() {
	l.step++
	left := step{missesPerStep, grantsPerStep}
	for idle := 0; idle < len(l.marked) && !left.over(); {
		n := min(len(l.marked), queuesPerRound)
		before := left
		l.round(l.marked[:n:n], &left)
		if left == before {
			idle += n
		} else {
			idle = 0
		}
		l.endRound(n)
	}
	l.crowdedOut = left.grants <= 0
	for _, g := range l.setAside {
		if g.aside = false; g.queue.byShare[g.share] == g {
			g.queue.groups.fix(g.index)
		}
	}
	l.setAside = l.setAside[:0]
}

// waitsItsTurn returns the queue in which a request that fits, and may wait, has to wait
// nevertheless; nil: none. Either requests that are alike wait already, and a walk has not come to
// them yet: they were first. Or there is enough for many who came before it, and the last step had
// no time for all of them.
func (l *Ledger) waitsItsTurn(e *entry) *queue {
	if len(l.marked) == 0 {
		return nil
	}
	l.scratch = classKey(l.scratch[:0], &e.Allocation)
	if c := l.classes[string(l.scratch)]; c != nil && c.group != nil && c.group.queue.marked && !c.tried {
		return c.group.queue
	}
	if !l.crowdedOut {
		return nil
	}
	asked := l.charges(e)
	for c := range asked.all {
		if q := &c.account.queue; q.marked && q.waiting > 0 {
			return q
		}
	}
	if asked.host == nil && l.anyHost.marked && l.anyHost.waiting > 0 {
		return &l.anyHost
	}
	return nil
}

// round gives each of some marked queues its turn. The one whose first request goes first is tried,
// and then again the one whose first request goes first.
func (l *Ledger) round(queues []*queue, left *step) {
	for _, q := range queues {
		q.turn = missesPerTurn
	}
	for !left.over() {
		var best *queue
		for _, q := range queues {
			if q.turn > 0 && q.more() && (best == nil || q.goesBefore(best)) {
				best = q
			}
		}
		switch {
		case best == nil:
			return
		case l.tryFirst(best):
			left.grants--
		default:
			left.misses--
			best.turn--
		}
	}
}

// endRound unmarks the first n marked queues if their walks are over, and puts the others at the
// end.
func (l *Ledger) endRound(n int) {
	for _, q := range l.marked[:n:n] {
		if q.walked() {
			q.marked = false
		} else {
			l.marked = append(l.marked, q)
		}
	}
	l.marked = slices.Delete(l.marked, 0, n)
}

// more reports whether the walk may try something in the queue in this step.
func (q *queue) more() bool {
	return q.heldFirst() || q.next() != nil && !q.exhausted()
}

// next is the class that the walk tries next; nil if all were tried, or are set aside in this step.
func (q *queue) next() *class {
	if q.waiting == 0 {
		return nil
	}
	g := q.groups.items[0]
	if c := g.first(); !g.aside && !c.tried {
		return c
	}
	return nil
}

// exhausted reports whether no request in the queue can be granted, because too little is left.
func (q *queue) exhausted() bool { return q.account != nil && q.hopeless(q.free()) }

// walked reports whether the walk through the queue is over. If so, the next one begins with the
// first request again.
func (q *queue) walked() bool {
	switch {
	case q.heldFirst():
		return false
	case q.waiting == 0 || q.exhausted():
		q.again = false
	case q.tried < q.classes:
		return false
	}
	again := q.again
	q.again = false
	q.ended, q.endedAgain = again && q.endedAgain, false
	q.rewind()
	return !again
}

// heldFirst reports whether the queue's account is held for a request that was not tried since the
// account had more to give.
func (q *queue) heldFirst() bool { return q.account != nil && q.account.claim != nil && !q.holderTried }

// free returns the most that a request behind the queue's account could get. If the account is held
// for another request, that is the rest next to the hold.
func (q *queue) free() (free [3]int64) {
	switch {
	case q.host != nil:
		free = q.host.free()
	case q.clusterQueue != nil:
		free = q.clusterQueue.free()
	default:
		free = q.account.free()
	}
	if q.account.claim != nil {
		for i, dimension := range [...]string{resource.Memory, resource.CPU, resource.Instances} {
			free[i] -= q.account.kept(dimension, free[i])
		}
	}
	return free
}

// goesBefore orders marked queues by the requests that are tried next. Those that an account is
// held for go first: they have waited long enough.
func (q *queue) goesBefore(other *queue) bool {
	if q.heldFirst() || other.heldFirst() {
		return q.heldFirst() && !other.heldFirst()
	}
	g, h := q.groups.items[0], other.groups.items[0]
	return goesBefore(g, g.first(), g.first().first(), h, h.first(), h.first().first())
}

// tryFirst tries the first class in a marked queue.
func (l *Ledger) tryFirst(q *queue) (granted bool) {
	if q.heldFirst() {
		return l.tryHolder(q)
	}
	c := q.next()
	g := c.group
	if l.try(q, c) {
		return true
	}
	if g.step != l.step {
		g.step, g.misses = l.step, 0
	}
	if g.misses++; g.misses >= missesPerShare && q.byShare[g.share] == g {
		g.aside = true
		q.groups.fix(g.index)
		l.setAside = append(l.setAside, g)
	}
	return false
}

// try grants the first request of a class, or moves the class to the queue that blocks it now.
func (l *Ledger) try(q *queue, c *class) (granted bool) {
	e := c.first()
	h, blocked := l.decide(e)
	if blocked != nil && q.ended {
		if h = l.afterHold(e, q); h != nil {
			blocked = nil
		}
	}
	switch blocked {
	case nil:
		l.admit(e, h)
		return true
	case q:
	default:
		c.dequeue()
		l.enqueueClass(c, blocked)
		if !blocked.marked { // else its walk need not try the class again
			return false
		}
	}
	c.setTried()
	return false
}

// admit grants a request that waits, whichever command made room for it.
func (l *Ledger) admit(e *entry, h *host) {
	l.deciding, l.admits = e, true
	l.becomeReserved(e, h)
	l.deciding, l.admits = nil, false
}

// setTried puts a class behind all of its queue that the walk has not tried.
func (c *class) setTried() {
	q := c.group.queue
	c.tried = true
	q.tried++
	q.triedClasses = append(q.triedClasses, c)
	c.fix()
}

// rewind lets the next walk begin with the first class again.
func (q *queue) rewind() {
	all := q.tried == q.classes // then the order among them is right
	few := len(q.triedClasses) <= q.classes/8
	for i, c := range q.triedClasses {
		q.triedClasses[i] = nil
		if !c.tried || c.group == nil || c.group.queue != q { // it has left the queue meanwhile
			continue
		}
		c.tried = false
		if few && !all {
			c.fix()
		}
	}
	q.tried, q.triedClasses = 0, q.triedClasses[:0]
	if all || few {
		return
	}
	for _, g := range q.groups.items {
		g.classes.rebuild()
	}
	q.groups.rebuild()
}
