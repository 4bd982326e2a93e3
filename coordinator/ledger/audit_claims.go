package ledger

import "slices"

// compareClaims checks the holds: what is held is held for a starved request that waits, on all
// that it lacked together, in a window that ends, and on few hosts. There are few holds: they are
// checked in one step.
func (a *auditor) compareClaims() bool {
	hosts := 0
	for i, c := range a.claims {
		e := c.entry
		if c.index != i || a.entry(e.ID) != e || e.State != Waiting || !e.present() || !e.isStarved() || e.claim != c {
			a.reportf(12, "a hold is for %s, which is %s, present %t, starved %t", e.ID, e.State, e.present(), e.isStarved())
		}
		if c.until <= a.now && !a.Behind() || c.until.Sub(c.since) > longestWindow || len(c.held) == 0 {
			a.reportf(12, "the hold for %s of %d accounts lasts from %d until %d; it is %d", e.ID, len(c.held), c.since, c.until, a.now)
		}
		a.compareHolder(c)
		for j := range c.held {
			if of := c.held[j].account; of.claim != c {
				a.reportf(12, "%s is held for %s, and does not know that", of.name, e.ID)
			}
			if c.held[j].account.queue.host != nil {
				hosts++
			}
		}
	}
	if hosts != len(a.claimedHosts) || hosts > a.mostClaimedHosts() {
		a.reportf(12, "%d hosts are held, and it lists %d; at most %d of %d may be", hosts, len(a.claimedHosts), a.mostClaimedHosts(), len(a.hosts))
	}
	return a.compareStarved()
}

// compareHolder checks that a share which has a hold on shared accounts has no other one, and that
// a hold began when its share had rested.
func (a *auditor) compareHolder(c *claim) {
	shared := slices.ContainsFunc(c.held, charge.shared)
	h := a.holders.byShare[c.share.key]
	switch {
	case shared != (c.shared != 0):
		a.reportf(12, "the hold for %s is on shared accounts %t, and says since %d", c.entry.ID, shared, c.shared)
	case h == nil || h.claims == 0 || c.share != c.entry.share:
		a.reportf(12, "the hold for %s is not known of its share %s", c.entry.ID, c.share.key)
	case shared && h.shared != c:
		a.reportf(12, "the hold for %s is one of several of its share %s on shared accounts", c.entry.ID, c.share.key)
	case h.shared != nil && h.claims > 1:
		a.reportf(12, "the hold for %s is one of %d of its share %s, which has one on shared accounts", c.entry.ID, h.claims, c.share.key)
	case shared && c.shared < h.rests:
		a.reportf(12, "shared accounts are held for %s since %d, and its share %s rests until %d", c.entry.ID, c.shared, c.share.key, h.rests)
	case c.since < h.closed:
		a.reportf(12, "the hold for %s began at %d, and its share %s has none until %d", c.entry.ID, c.since, c.share.key, h.closed)
	}
}

// compareClaim checks that an account that is held is in a hold.
func (a *auditor) compareClaim(of *account) {
	c := of.claim
	if c == nil {
		return
	}
	listed := c.index < len(a.claims) && a.claims[c.index] == c
	if !listed || !slices.ContainsFunc(c.held, func(held charge) bool { return held.account == of }) {
		a.reportf(12, "%s is held for %s, and is in no hold of it", of.name, c.entry.ID)
	}
}

// countStarved checks that a starved request is in order.
func (a *auditor) countStarved(e *entry) {
	if !e.isStarved() {
		return
	}
	if list := e.share.starved.requests.items; e.starvedIndex >= len(list) || list[e.starvedIndex] != e {
		a.reportf(12, "%s is starved, and not in order", e.ID)
	}
}

// compareStarved checks that those that are in order are starved.
func (a *auditor) compareStarved() bool {
	for i := 0; i < len(a.starved.items); i++ { //nolint:intrange // the list changes between steps
		s := &a.starved.items[i].starved
		if s.index != i || len(s.requests.items) == 0 {
			a.reportf(12, "share %d of those with starved requests has %d, and says it is %d", i, len(s.requests.items), s.index)
		}
		for _, e := range s.requests.items {
			if a.looked++; !e.isStarved() || a.entry(e.ID) != e {
				a.reportf(12, "%s is in the order of starved requests, starved %t", e.ID, e.isStarved())
			}
		}
		if !a.step() {
			return false
		}
	}
	return true
}
