package ledger

// markEnded notes in the queues of an account that a hold of it has ended: see afterHold.
func (l *Ledger) markEnded(a *account) {
	a.queue.noteEnded()
	if a.queue.host != nil {
		l.anyHost.noteEnded()
	}
}

// afterHold returns the host on which a request in a queue can be granted that was kept out by a
// hold, which has ended, and is kept out by other holds only; nil: there is none. Nobody is kept
// out by one hold after another, unless they are for more urgent requests. If it was the hold of a
// host, for one that waits for any host, no other host is taken that is held: it was not that hold
// that kept it from those.
func (l *Ledger) afterHold(e *entry, q *queue) *host {
	asked := l.charges(e)
	for c := range asked.all {
		if h := c.host(); !c.fits() || h != nil && l.closedTo(e, h) || c.account.heldFrom(e, c.vector) && c.account.claim.entry.Priority > e.Priority {
			return nil
		}
	}
	if asked.host != nil {
		return asked.host
	}
	if h := l.hostFor(e); h != nil || q == &l.anyHost {
		return h
	}
	for _, h := range l.claimedHosts {
		if !avoids(e.Wishes, h) && h.account.claim.entry.Priority <= e.Priority && h.fits(e.request()) && !l.closedTo(e, h) {
			return h
		}
	}
	return nil
}

// noteEnded notes that a hold of the queue's account has ended, or for those who wait for any host
// of one of them. If the queue is not marked, nobody in it is helped by that.
func (q *queue) noteEnded() {
	switch {
	case !q.marked:
	case q.tried > 0:
		q.endedAgain = true
	default:
		q.ended = true
	}
}
