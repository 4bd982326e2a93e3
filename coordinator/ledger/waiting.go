package ledger

// # How requests wait
//
// A request that does not fit waits behind the first account that is short: a quota, a cluster
// queue, or the host that it names. One that names no host, and for which no host has room, waits
// for any host. Requests that are alike are one class, and wait together (queue.go).
//
// An account that has more to give marks its queue. The queue is walked at once, before the next
// command is decided: by priority, then by fair share (share.go), then by arrival. A walk gives
// each share a few tries in a step, and marked queues their turns, so that no step takes long. A
// mark stays until everybody behind the account was tried; what is left over is due at once
// (walk.go).
//
// Who is smaller may go ahead, but not for ever. A request is starved when it has waited for
// StarvationAfter and an account that it lacks something of has granted to one that came later and
// is no more urgent; for one that waits for any host, a host that it could go to (starved.go). For
// the starved, accounts are held (holds.go):
//
//   - They stand in one order: by priority, then the shares for which nothing was held for the
//     longest time. Within a share requests take turns. Whenever something changes for them, a
//     round visits the first 64, at most 4 of one share, 8 in a step. Who would be helped by no
//     hold leaves the order until the next check.
//   - A request gets all the accounts that it lacks, or none. If it names no host, the closest host
//     is one of them, and its last 4 come after all others. What a request wants that comes first
//     is not given to one that comes later. So no two requests wait for what the other one holds.
//   - A hold consumes nothing. In every dimension that the account limits, others still get what is
//     left next to what the request needs: they fit if they ask for no more than free - min(need,
//     free).
//   - It lasts for a window of StarvationAfter·2^k, at most 1 h, for the k-th of the request. Then
//     the account is not held, for anybody, for as long as it was. So no account is held for more
//     than half of the time, even if its runners never end.
//   - All accounts but hosts are shared. While a share holds shared accounts it has no other hold,
//     and after it none for as long as it lasted. After the hold of a host it has none on shared
//     accounts for as long; it may hold other hosts. So it is whatever it cancels and asks again,
//     and also if the rules change (holders.go). So one submitter keeps what somebody else needs,
//     shared accounts and a host, for at most half of the time.
//   - Nothing is held for a request that does not fit next to what its own share has in an account
//     that it lacks. If nobody but the share, or the request's user, counts in what it lacks, it
//     may be held nevertheless: that keeps out nobody else.
//   - Nobody is kept out by two holds in a row. If a request waits behind an account when a hold of
//     it ends, and fits but for other holds of requests that are no more urgent, it is granted.
//   - At most one host of 20 is held, or one, and one for each share while others starve.
//
// So a request is granted if what it needs ends within its longest window, and whoever waits loses
// one window at most to others. Holds are not stored: a leader that has just loaded begins again.

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
		c.share.revalue(&l.fleet)
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
		l.becomeReserved(e, h)
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
	l.setEntryTimer(e)
	l.grantWaiting()
}

// leaveClass takes a waiting entry out of its class, if it is in one.
func (l *Ledger) leaveClass(e *entry) {
	c := e.class
	if c == nil {
		return
	}
	c.remove(e)
	if len(c.members.items) == 0 {
		delete(l.classes, c.key)
	} else {
		l.setEntryTimer(c.first())
	}
}

// stopWaiting takes an entry out of its class, ends what is held for it and drops its callers.
func (l *Ledger) stopWaiting(e *entry) {
	if e.waitState == nil {
		return
	}
	l.dequeue(e)
	e.callers = 0
}

// dequeue takes a waiting entry out of its class and ends what is held for it.
func (l *Ledger) dequeue(e *entry) {
	l.leaveClass(e)
	l.endClaim(e)
	if e.starved {
		l.removeStarved(e)
		l.visitDue = true // what it wanted may be held for another
	}
}

// freed marks the queue of an account that has more to give, or that is no longer held.
func (l *Ledger) freed(a *account) {
	l.mark(&a.queue)
	if a.queue.host != nil && !l.anyHost.hopeless(a.queue.free()) {
		l.mark(&l.anyHost)
	}
}
