package ledger

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

// tryHolder grants the request that the account is held for, if the account has enough now.
func (l *Ledger) tryHolder(q *queue) (granted bool) {
	e := q.account.holder
	h, blocked := l.decide(e)
	switch {
	case blocked == nil:
		l.admit(e, h)
		return true
	case blocked == q && (q.host == nil || q.host.suits(e.Wishes) && !l.crowded(e, q.host)):
		q.holderTried = true
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
		if q := &c.account.queue; q.waiting > 0 && (c.part == nil || !c.vector.IsZero()) {
			l.markPassed(q.first(), e)
			for _, tried := range q.triedClasses[:min(8, len(q.triedClasses))] {
				if tried.tried && tried.group != nil && tried.group.queue == q {
					l.markPassed(tried.first(), e)
				}
			}
		}
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
