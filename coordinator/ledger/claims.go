package ledger

import (
	"slices"
)

// claimFor begins a window in which accounts are held for a starved request.
func (l *Ledger) claimFor(e *entry, lacking []charge) {
	window := longestWindow
	if k := e.windows; k < 20 {
		window = min(window, l.cfg.StarvationAfter<<k)
	}
	e.windows++
	l.holders.begin(e.share.key, l.now)
	l.setHeld(e)
	e.claim = &claim{entry: e, share: e.share, since: l.now, until: l.now.Add(window), index: len(l.claims)}
	l.claims = append(l.claims, e.claim)
	l.extendClaim(e, lacking)
	l.setEntryTimer(e)
}

// setHeld moves a share, and a request of it, to the end of their orders: a hold for it begins or
// ends now.
func (l *Ledger) setHeld(e *entry) {
	s := &e.share.starved
	s.last, e.turn = l.now, l.now
	s.requests.fix(e.starvedIndex)
	l.starved.fix(s.index)
}

// extendClaim holds accounts for a request until the end of its window.
func (l *Ledger) extendClaim(e *entry, lacking []charge) {
	for _, c := range lacking {
		c.account.claim = e.claim
		e.claim.held = append(e.claim.held, c)
		if c.shared() && e.claim.shared == 0 {
			e.claim.shared = l.now
			l.holders.byShare[e.share.key].shared = e.claim
		}
		if h := c.host(); h != nil {
			l.claimedHosts = append(l.claimedHosts, h)
			e.claim.share.starved.hosts++
			l.updatePlacer(h)
			if e.HostID == "" {
				e.lastHosts = append(e.lastHosts, h.ID)
				e.lastHosts = e.lastHosts[max(0, len(e.lastHosts)-hostsTried):]
			}
		}
	}
}

// keepClaim extends a request's hold to the accounts that it lacks by now. If one of these is held
// for another request, or no hold would help, the hold ends: a part of its need is of no use.
func (l *Ledger) keepClaim(e *entry, hostless bool) {
	lacking, helps := l.lacks(e)
	helps = helps && !hostless
	var more []charge
	for _, c := range lacking {
		if a := c.account; a.claim != e.claim {
			more = append(more, c)
			helps = helps && l.unclaimed(a)
		}
	}
	if may, _ := l.mayClaim(e, more); !helps || !may || !l.mayClaimHost(e, more) {
		l.endClaim(e)
		l.setEntryTimer(e)
		return
	}
	l.extendClaim(e, more)
}

// endClaim ends the hold for a request, if it has one. For as long as it lasted, its accounts are
// not held again.
func (l *Ledger) endClaim(e *entry) {
	ends := e.claim
	if ends == nil {
		return
	}
	e.claim = nil
	rests := l.now.Add(l.now.Sub(ends.since))
	for _, c := range ends.held {
		c.account.claim, c.account.rests = nil, rests
		if h := c.host(); h != nil {
			l.claimedHosts = slices.DeleteFunc(l.claimedHosts, func(other *host) bool { return other == h })
			ends.share.starved.hosts--
			l.updatePlacer(h)
		}
		l.freed(c.account)
		l.markEnded(c.account)
	}
	l.holders.end(ends, l.now, rests)
	l.setHeld(e)
	last := l.claims[len(l.claims)-1]
	l.claims[ends.index], last.index = last, ends.index
	l.claims[len(l.claims)-1] = nil
	l.claims = l.claims[:len(l.claims)-1]
	l.visitDue = true
}

// claimedHost is the host that is held for a request; nil: none is.
func (e *entry) claimedHost() *host {
	if e.waitState != nil && e.claim != nil {
		for _, c := range e.claim.held {
			if h := c.host(); h != nil {
				return h
			}
		}
	}
	return nil
}

// tryHolder grants the request that an account is held for, if it has all that it needs now.
func (l *Ledger) tryHolder(q *queue) (granted bool) {
	q.holderTried = true
	e := q.account.claim.entry
	h, blocked := l.decide(e)
	if blocked == nil {
		l.admit(e, h)
		return true
	}
	l.deciding = e
	l.keepClaim(e, blocked == &l.absent)
	l.deciding = nil
	return false
}
