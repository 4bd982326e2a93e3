package ledger

import "slices"

// missesPerStep bounds how many classes are tried in vain after one command. It is reached only where so many different
// kinds of requests wait behind one account; those further back are tried when something else comes free.
const missesPerStep = 1024

// skip is a class that was set aside while looking further, and where it waits.
type skip struct {
	class *class
	queue *queue
}

// wait lets an entry, which is in the tables, wait behind what blocks it.
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

// enqueue adds a waiting entry to its class, which waits behind the given queue if it is new.
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

// enqueueClass puts a class behind a queue.
func (l *Ledger) enqueueClass(c *class, q *queue) {
	c.share = c.first().share
	if len(c.share.groups) == 0 {
		c.share.revalue(l.fleet)
	}
	q.push(c)
}

// attachCaller gives a waiting entry a caller again, and tries it at once: its turn may have come while nobody was there.
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

// Detach says that a caller of a waiting request went away. The request keeps its place for a while, but is not granted
// to nobody.
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

// stopWaiting takes an entry out of everything that has to do with waiting.
func (l *Ledger) stopWaiting(e *entry) {
	l.dequeue(e)
	l.dropHold(e)
	e.callers = 0
}

// dropHold ends what is kept for an entry.
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

// freed notes that an account has more to give, or that what it has is no longer kept for somebody.
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

// grantWaiting grants what the accounts that have more to give allow, in the order of priority, fair share and arrival. All of it, before anybody
// who comes later is looked at.
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

// nextQueue is the marked queue whose first request goes first. Those where nobody can be helped are unmarked.
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

// idle reports whether nobody in the queue can be helped.
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
	case q.branch != nil:
		return q.branch.free()
	default:
		return q.account.free()
	}
}

// goesBefore orders queues by their first requests. One that is held goes first: nobody else can get what it has.
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

// admit grants a request that waits, whatever the command is that made room for it.
func (l *Ledger) admit(e *entry, h *host) {
	l.deciding, l.admits = e, true
	l.stopWaiting(e)
	l.grant(e, h)
	l.deciding, l.admits = nil, false
}

// setAside makes sure that a class which has just been found blocked there is not tried there again in this step.
func (l *Ledger) setAside(c *class, blocked *queue) {
	if blocked.dirty {
		c.dequeue()
		l.skipped = append(l.skipped, skip{c, blocked})
	}
}

// tryHolder grants the request for which the account keeps what it has, if that is enough by now.
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
	default: // something else blocks it, the host has lost its labels, or is closed to its caller: others need not wait for that
		e.nextHold = l.now.Add(l.cfg.StarvationAfter)
		l.dropHold(e)
		l.setEntryTimer(e)
	}
	return false
}

// markPassedOver notes which requests the grant of e went past: the first ones behind its accounts that came earlier and are no less urgent.
func (l *Ledger) markPassedOver(e *entry) {
	for _, quota := range e.accounts {
		if quota.queue.waiting > 0 {
			l.markPassed(quota.queue.first(), e)
		}
	}
	for i := range e.charges() {
		if t := &e.external.charges[i]; t.branch.account.queue.waiting > 0 && !t.vector.IsZero() {
			l.markPassed(t.branch.account.queue.first(), e)
		}
	}
	if e.host.account.queue.waiting > 0 {
		l.markPassed(e.host.account.queue.first(), e)
	}
	for i := 0; i < len(l.skipped) && i < 8; i++ { // those set aside are the first of their queues
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

// holdForStarved keeps for a request that was passed over too long what its account frees, where and as long as that one account
// is all it lacks.
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

// soleBlocker is the one account that the request lacks; nil where there are several, or no host in particular.
func (l *Ledger) soleBlocker(e *entry) *account {
	var sole *account
	blockers := 0
	for _, quota := range e.accounts {
		if !quota.fits(e.request()) {
			sole = quota
			blockers++
		}
	}
	for _, t := range e.charges() {
		if !t.branch.fits(t.vector) {
			sole = &t.branch.account
			blockers++
		}
	}
	if e.HostID != "" {
		h := l.hosts[e.HostID]
		if !h.suits(e.Wishes) || l.crowded(e, h) { // nothing that comes free there would help
			return nil
		}
		if !h.fits(e.request()) {
			sole = &h.account
			blockers++
		}
	} else if l.placer.Choose(l.query(e)) == NoSlot {
		return nil
	}
	if blockers != 1 {
		return nil
	}
	return sole
}
