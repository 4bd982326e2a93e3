package ledger

// markEnded notes in the queues of an account that a hold of it has ended: see afterHold.
func (l *Ledger) markEnded(a *account) {
	a.queue.noteEnded()
	if a.queue.host != nil {
		l.mark(&l.anyHost) // also if this host has no room: another one is held, too
		l.anyHost.noteEnded()
	}
}

// afterHold returns the host on which a request can be granted that was kept out by a hold, which
// has ended, and is kept out by other holds only; nil: there is none. Nobody is kept out by one
// hold after another, unless they are for more urgent requests.
func (l *Ledger) afterHold(e *entry) *host {
	asked := l.charges(e)
	for c := range asked.all {
		if h := c.host(); !c.fits() || h != nil && l.closedTo(e, h) || c.account.heldFrom(e, c.vector) && c.account.claim.entry.Priority > e.Priority {
			return nil
		}
	}
	if asked.host != nil {
		return asked.host
	}
	if h := l.hostFor(e); h != nil {
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
