package ledger

import "slices"

// missesPerStep bounds how many classes are tried without success after one command. It is reached
// only if so many different kinds of requests wait behind one account. Those further back are
// tried when something else becomes free.
const missesPerStep = 1024

// skip is a class that was set aside while others are tried, and the queue that it waits in.
type skip struct {
	class *class
	queue *queue
}

// wait makes an entry, which is in the tables, wait behind what blocks it.
func (l *Ledger) wait(e *entry, blocked *queue, reason string) {
	l.setState(e, Waiting, reason)
	l.setTTL(e, 0)
	if e.present() {
		l.enqueue(e, blocked)
	} else {
		e.detached = l.now
	}
	l.recordEntry(e)
	l.setEntryTimer(e)
}

// enqueue adds a waiting entry to its class. A new class is enqueued in the given queue.
func (l *Ledger) enqueue(e *entry, blocked *queue) {
	l.scratch = classKey(l.scratch[:0], &e.Allocation)
	c := l.classes[string(l.scratch)]
	if c == nil {
		c = &class{key: string(l.scratch), priority: e.Priority, share: e.share, request: e.request(), members: newMembers()}
		l.classes[c.key] = c
	}
	c.add(e)
	if c.group == nil {
		l.enqueueClass(c, blocked)
	}
}

// enqueueClass puts a class into a queue.
func (l *Ledger) enqueueClass(c *class, q *queue) {
	c.share = c.first().share
	if len(c.share.groups) == 0 {
		c.share.revalue(l.fleet)
	}
	q.push(c)
}

// attachCaller gives a waiting entry a caller again, and tries it at once: it may have been first
// while it had no caller.
func (l *Ledger) attachCaller(e *entry) {
	e.callers++
	if e.class != nil {
		return
	}
	h, blocked := l.decide(e)
	if blocked == nil {
		l.stopWaiting(e)
		l.grant(e, h)
		return
	}
	l.enqueue(e, blocked)
	l.setEntryTimer(e)
}

// Detach says that a caller of a waiting request went away. The request keeps its place for some
// time, but it is not granted while it has no caller.
func (l *Ledger) Detach(now Instant, id ID) {
	l.begin(now)
	e := l.entry(id)
	if e == nil || e.State != Waiting || e.callers == 0 {
		return
	}
	e.callers--
	if e.present() {
		return
	}
	e.detached = l.now
	l.dequeue(e)
	l.dropHold(e)
	l.setEntryTimer(e)
	l.grantWaiting()
}

// dequeue takes a waiting entry out of its class.
func (l *Ledger) dequeue(e *entry) {
	c := e.class
	if c == nil {
		return
	}
	c.remove(e)
	if len(c.members.items) == 0 {
		delete(l.classes, c.key)
	}
}

// stopWaiting takes an entry out of its class and drops its hold and its callers.
func (l *Ledger) stopWaiting(e *entry) {
	l.dequeue(e)
	l.dropHold(e)
	e.callers = 0
}

// dropHold ends the hold for an entry, if it has one.
func (l *Ledger) dropHold(e *entry) {
	a := e.heldAccount
	if a == nil {
		return
	}
	a.holder, e.heldAccount = nil, nil
	l.freed(a)
	if h := a.queue.host; h != nil {
		l.updatePlacer(h)
	}
}

// freed marks the queue of an account that has more to give, or that is no longer held.
func (l *Ledger) freed(a *account) {
	l.mark(&a.queue)
	if h := a.queue.host; h != nil && !l.anyHost.hopeless(h.free()) {
		l.mark(&l.anyHost)
	}
}

func (l *Ledger) mark(q *queue) {
	if !q.dirty {
		q.dirty = true
		l.dirty = append(l.dirty, q)
	}
}

// grantWaiting grants waiting requests as far as the accounts that have more to give allow, in the
// order of priority, fair share and arrival. It does all of that before a later request is
// decided.
func (l *Ledger) grantWaiting() {
	for misses := 0; misses < missesPerStep; {
		q := l.nextQueue()
		if q == nil {
			break
		}
		var granted bool
		if q.account != nil && q.account.holder != nil {
			granted = l.tryHolder(q)
		} else {
			granted = l.try(q, q.groups.items[0].first())
		}
		if !granted {
			misses++
		}
	}
	for _, q := range l.dirty {
		q.dirty = false
	}
	l.dirty = l.dirty[:0]
	for _, s := range l.skipped {
		l.enqueueClass(s.class, s.queue)
	}
	l.skipped = l.skipped[:0]
}

// nextQueue is the marked queue whose first request goes first. It unmarks queues in which no
// request can be granted.
func (l *Ledger) nextQueue() *queue {
	var best *queue
	kept := l.dirty[:0]
	for _, q := range l.dirty {
		if q.idle() {
			q.dirty = false
			continue
		}
		kept = append(kept, q)
		if best == nil || q.goesBefore(best) {
			best = q
		}
	}
	l.dirty = kept
	return best
}

// idle reports whether no request in the queue can be granted.
func (q *queue) idle() bool {
	switch {
	case q.account != nil && q.account.holder != nil:
		return false
	case q.waiting == 0:
		return true
	case q.account == nil:
		return false
	default:
		return q.hopeless(q.free())
	}
}

// free is what a request behind the queue's account could get at most.
func (q *queue) free() [3]int64 {
	switch {
	case q.host != nil:
		return q.host.free()
	case q.clusterQueue != nil:
		return q.clusterQueue.free()
	default:
		return q.account.free()
	}
}

// goesBefore orders queues by their first requests. A queue whose account is held goes first,
// because no other request can get what that account has.
func (q *queue) goesBefore(other *queue) bool {
	mine, theirs := q.account != nil && q.account.holder != nil, other.account != nil && other.account.holder != nil
	if mine || theirs {
		return mine && !theirs
	}
	g, h := q.groups.items[0], other.groups.items[0]
	return goesBefore(g, g.first(), g.first().first(), h, h.first(), h.first().first())
}

// try grants the first of a class, or moves the class to what blocks it now, or sets it aside.
func (l *Ledger) try(q *queue, c *class) (granted bool) {
	e := c.first()
	h, blocked := l.decide(e)
	switch blocked {
	case nil:
		l.admit(e, h)
		return true
	case q:
		c.dequeue()
		l.skipped = append(l.skipped, skip{c, q})
	default:
		c.dequeue()
		l.enqueueClass(c, blocked)
		l.setAside(c, blocked)
	}
	return false
}

// admit grants a request that waits, whichever command made room for it.
func (l *Ledger) admit(e *entry, h *host) {
	l.deciding, l.admits = e, true
	l.stopWaiting(e)
	l.grant(e, h)
	l.deciding, l.admits = nil, false
}

// setAside takes a class out of a marked queue that was just found to block it, so that it is not
// tried there again in this step.
func (l *Ledger) setAside(c *class, blocked *queue) {
	if blocked.dirty {
		c.dequeue()
		l.skipped = append(l.skipped, skip{c, blocked})
	}
}

// tryHolder grants the request that the account is held for, if the account has enough now.
func (l *Ledger) tryHolder(q *queue) (granted bool) {
	e := q.account.holder
	h, blocked := l.decide(e)
	switch {
	case blocked == nil:
		l.admit(e, h)
		return true
	case blocked == q && (q.host == nil || q.host.suits(e.Wishes) && !l.crowded(e, q.host)):
		q.dirty = false
		l.dirty = slices.DeleteFunc(l.dirty, func(other *queue) bool { return other == q })
	default:
		// something else blocks it, the host has lost its labels, or is closed to its caller:
		// other requests need not wait for it
		e.nextHold = l.now.Add(l.cfg.StarvationAfter)
		l.dropHold(e)
		l.setEntryTimer(e)
	}
	return false
}

// markPassedOver marks the requests that the grant of e passed over: the first ones behind its
// accounts that came earlier and have at least its priority.
func (l *Ledger) markPassedOver(e *entry) {
	for c := range l.charges(e).all {
		if c.account.queue.waiting > 0 && (c.part == nil || !c.vector.IsZero()) {
			l.markPassed(c.account.queue.first(), e)
		}
	}
	// classes that were set aside are the first of their queues
	for i := 0; i < len(l.skipped) && i < 8; i++ {
		l.markPassed(l.skipped[i].class.first(), e)
	}
}

func (l *Ledger) markPassed(first, e *entry) {
	if first.PassedSince != 0 || first.ID > e.ID || first.Priority < e.Priority {
		return
	}
	first.PassedSince = l.now
	l.setEntryTimer(first)
}

// holdForStarved holds an account for a request that was passed over too long, if and as long as
// this account is the only one that it lacks.
func (l *Ledger) holdForStarved(e *entry) {
	e.nextHold = l.now.Add(l.cfg.StarvationAfter)
	a := l.soleBlocker(e)
	if e.heldAccount != a {
		l.dropHold(e)
	}
	if a != nil && a.holder == nil {
		a.holder, e.heldAccount = e, a
		if h := a.queue.host; h != nil {
			l.updatePlacer(h)
		}
	}
	l.setEntryTimer(e)
}

// soleBlocker is the only account that the request lacks; nil if there are several, or if no
// particular host is short.
func (l *Ledger) soleBlocker(e *entry) *account {
	if l.hostless(e) { // nothing that becomes free would help
		return nil
	}
	var sole *account
	blockers := 0
	asked := l.charges(e)
	for c := range asked.all {
		if h := c.host(); h != nil && l.closedTo(e, h) { // nothing that becomes free there would help
			return nil
		}
		if !c.fits() {
			sole = c.account
			blockers++
		}
	}
	if asked.host == nil && l.placer.Choose(l.query(e)) == NoSlot {
		return nil
	}
	if blockers != 1 {
		return nil
	}
	return sole
}
