package ledger

// # How requests wait
//
// A request that does not fit waits behind the first account that is short: a quota, a cluster
// queue, or the host that it names. A request that names no host, and for which no host has room,
// waits for any host. Requests that are alike form one class, and wait together (queue.go).
//
// An account that has more to give marks its queue. The ledger walks the queue at once, before it
// decides the next command: by priority, then by fair share (share.go), then by arrival. A walk
// gives each share a few tries in a step, and marked queues take turns, so that no step takes long.
// A mark stays until every request behind the account was tried; the remaining tries are due at
// once (walk.go).
//
// A smaller request may go ahead, but not forever. A request is starved when it has waited for
// StarvationAfter and an account that it lacks has granted something to a later request that is no
// more urgent. For a request that waits for any host, this account is a host that it could go to
// (starved.go). For starved requests, accounts are held (holds.go):
//
//   - They stand in one order: by priority, then by share, first the shares that have been without
//     a hold for the longest time. Within a share requests take turns. Whenever something changes
//     for them, a round visits the first 64, at most 4 of one share, 8 in a step. A request that no
//     hold would help leaves the order until the next check.
//   - A request gets all the accounts that it lacks, or none. If it names no host, the closest host
//     is one of them, and its last 4 come after all others. An account that an earlier request
//     wants is not given to a later one. So no two requests wait for each other's holds.
//   - A hold consumes nothing. In every dimension that the account limits, other requests still get
//     the amounts beyond the request's need: they fit if they ask for no more than free - min(need,
//     free).
//   - It lasts for a window of StarvationAfter·2^k, at most 1 h, for the k-th of the request. Then
//     the account is not held, for anybody, for as long as the hold lasted. So no account is held
//     for more than half of the time, even if its runners never end.
//   - All accounts but hosts are shared. While a share holds shared accounts it has no other hold,
//     and after it none for as long as it lasted. After the hold of a host it has none on shared
//     accounts for as long; it may hold other hosts. This is so even if the share cancels its
//     requests and asks again, or if the rules change (holders.go). So one submitter keeps the
//     shared accounts and the host that another one needs for at most half of the time.
//   - Nothing is held for a request that does not fit next to its own share's use of an account
//     that it lacks. The exception is an account in which only the share, or the request's user,
//     counts: its hold keeps out nobody else.
//   - Nobody is kept out by two holds in a row. If a request waits behind an account when a hold of
//     it ends, and fits but for other holds of requests that are no more urgent, it is granted.
//   - At most one host of 20 is held, or one, and one for each share while others starve.
//
// So a request is granted if the allocations in its way end within its longest window, and a
// waiting request loses one window at most to others. Holds are not stored: a leader that has just
// loaded begins again.

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

// Detach reports that a caller of a waiting request went away. The request keeps its place for some
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

// leaveClass removes a waiting entry from its class, if it is in one.
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

// stopWaiting removes an entry from its class, ends its holds and drops its callers.
func (l *Ledger) stopWaiting(e *entry) {
	if e.waitState == nil {
		return
	}
	l.dequeue(e)
	e.callers = 0
}

// dequeue removes a waiting entry from its class and ends its holds.
func (l *Ledger) dequeue(e *entry) {
	l.leaveClass(e)
	l.endClaim(e)
	if e.starved {
		l.removeStarved(e)
		l.visitDue = true // its accounts may be held for another request
	}
}

// freed marks the queue of an account that has more to give, or that is no longer held.
func (l *Ledger) freed(a *account) {
	l.mark(&a.queue)
	if a.queue.host != nil && !l.anyHost.hopeless(a.queue.free()) {
		l.mark(&l.anyHost)
	}
}
