package ledger

import (
	"cmp"
	"slices"
	"time"

	"github.com/bursar/bursar/resource"
)

// The rule of holds is in waiting.go.
const (
	// starvedVisited is the number of starved requests in a round.
	starvedVisited = 64
	// starvedOfShare is how many of them may be of one share.
	starvedOfShare = 4
	// longestWindow bounds how long a hold lasts: StarvationAfter·2^k for the k-th of a request.
	longestWindow = time.Hour
	// claimedHostsOf is the number of hosts of which one may be held.
	claimedHostsOf = 20
	// hostsTried is the number of other hosts, if there are any, that are tried before one is held
	// again for a request that names none.
	hostsTried = 4
	// closestTried is the number of hosts among which the ledger looks for one that can be held.
	closestTried = 8
	// sizesCompared is the number of sufficiently large hosts that are compared if none of the
	// closest can be held.
	sizesCompared = 256
	// visitsPerStep is the number of starved requests in one step. A visit decides the request,
	// looks at closestTried hosts, and at ownCounted engines of each.
	visitsPerStep = 8
	// checksPerStep is the number of requests that one step checks for starvation. A check looks at
	// closestTried hosts.
	checksPerStep = 64
)

// claim is a window in which accounts are held for one request.
type claim struct {
	entry        *entry
	share        *share // of the request
	held         []charge
	since, until Instant
	shared       Instant // since when a shared account is held; zero: none is
	index        int     // in the ledger's list
}

// need returns the part of a held account that the hold's request needs.
func (c *claim) need(a *account) resource.Vector {
	for i := range c.held {
		if c.held[i].account == a {
			return c.held[i].vector
		}
	}
	return resource.Vector{}
}

// kept returns the part of the free amount that a hold keeps for its request: the need, if that
// much is free.
func (a *account) kept(dimension string, free int64) int64 {
	if a.claim == nil {
		return 0
	}
	return max(0, min(get(a.claim.need(a), dimension), free))
}

// left returns the amount that the account can give now, by the ledger and, for the memory of a
// host, by measurement.
func (a *account) left(dimension string) int64 {
	free := a.available(dimension)
	if h := a.queue.host; h != nil && dimension == resource.Memory {
		free = min(free, h.headroom())
	}
	return free
}

// heldFrom reports whether the account is held for another request and e, which asks it for v, does
// not fit next to the hold.
func (a *account) heldFrom(e *entry, v resource.Vector) bool {
	if a.claim == nil || a.claim.entry == e {
		return false
	}
	return a.keeps(v)
}

// keeps reports whether a request does not fit next to the amounts that the hold keeps.
func (a *account) keeps(v resource.Vector) bool {
	for dimension, asked := range v.All() {
		if asked == 0 || a.mostOf(dimension) >= unlimited {
			continue
		}
		if free := a.left(dimension); asked > free-a.kept(dimension, free) {
			return true
		}
	}
	return false
}

// idle returns the amounts that the hold keeps from other requests now, in the dimensions that the
// account limits.
func (a *account) idle() (kept resource.Vector) {
	if a.claim == nil {
		return kept
	}
	for dimension := range a.claim.need(a).All() {
		if n := a.kept(dimension, a.left(dimension)); n > 0 && a.mostOf(dimension) < unlimited {
			kept = kept.With(dimension, n)
		}
	}
	return kept
}

// visitStarved grants starved requests, or holds accounts that they lack, after a change that
// concerns them. It visits the first ones, in their order, at most left of them; the next steps go
// on with the others. It returns the number of visits that are left.
func (l *Ledger) visitStarved(left int) int {
	if len(l.visiting) == 0 {
		if !l.visitDue {
			return left
		}
		l.visitDue = false
		l.visits++
		l.visiting, l.visitAgain = l.firstStarved(), 0
	}
	for ; len(l.visiting) > 0 && left > 0; l.visiting = l.visiting[1:] {
		e := l.entry(l.visiting[0])
		if e == nil || !e.isStarved() { // it has ended, or is granted
			continue
		}
		left--
		at := l.visit(e)
		l.deciding = nil
		if at != 0 && (l.visitAgain == 0 || at < l.visitAgain) {
			l.visitAgain = at
		}
	}
	if len(l.visiting) == 0 {
		l.visiting = nil
		l.timers.set(&l.visitTimer, l.visitAgain)
	}
	return left
}

// visit grants one starved request, keeps or drops its hold, or gives it one. It returns the time
// of the next try; zero: after the next change.
func (l *Ledger) visit(e *entry) (again Instant) {
	if e.claim != nil {
		l.keepClaim(e, l.hostless(e))
		return 0
	}
	h, blocked := l.decide(e)
	if blocked == nil {
		l.admit(e, h)
		return 0
	}
	again = l.now.Add(l.cfg.StarvationAfter)
	if blocked == &l.absent {
		l.postpone(e)
		return 0
	}
	l.deciding = e
	lacking, helps := l.lacks(e)
	if !helps {
		l.postpone(e)
		return 0
	}
	if len(lacking) == 0 || !l.mayClaimHost(e, lacking) {
		return again
	}
	if may, rests := l.mayClaim(e, lacking); !may {
		if rests != 0 {
			again = min(again, rests)
		}
		return again
	}
	free := true
	for _, c := range lacking {
		switch a := c.account; {
		case a.claim != nil || a.wanted == l.visits:
			free = false
		case a.rests > l.now:
			again, free = min(again, a.rests), false
		}
	}
	if !free { // no later request gets a part of these accounts
		for _, c := range lacking {
			c.account.wanted = l.visits
		}
		return again
	}
	l.claimFor(e, lacking)
	return 0
}

// postpone removes a request from the order until its next check, because no hold would help it
// now. Otherwise a few such requests would keep all others from being visited.
func (l *Ledger) postpone(e *entry) {
	l.removeStarved(e)
	l.visitDue = true // the requests after it are to be visited, too
	e.nextCheck = l.now.Add(l.cfg.StarvationAfter)
	l.setEntryTimer(e)
}

// lacks returns the accounts in which a request does not fit. If it names no host, and no host has
// room, the closest host is one of them. If helps is false, no amount that others give back in
// these accounts would help.
func (l *Ledger) lacks(e *entry) (lacking []charge, helps bool) {
	asked := l.charges(e)
	helps = true
	for c := range asked.all {
		if c.fits() && !c.account.heldFrom(e, c.vector) {
			if h := c.host(); h != nil && l.closedTo(e, h) {
				helps = false
			}
			continue
		}
		lacking = append(lacking, c)
		helps = helps && l.canDrain(e, c)
	}
	if e.HostID != "" && asked.host == nil { // it waits for a host that is not there
		return lacking, false
	}
	if asked.host != nil || l.hostFor(e) != nil {
		return lacking, helps && !l.blocksItself(e, lacking)
	}
	h := e.claimedHost()
	if h == nil {
		h = l.closestHost(e)
	}
	if h == nil {
		return lacking, false
	}
	c := charge{account: &h.account, vector: e.request()}
	lacking = append(lacking, c)
	return lacking, helps && l.canDrain(e, c) && !l.blocksItself(e, lacking)
}

// blocksItself reports whether the own share's use of an account keeps the request from fitting
// there. If only the share counts in these accounts, a hold keeps out nobody else, and the share's
// allocations may end as well: then it does not block itself.
func (l *Ledger) blocksItself(e *entry, lacking []charge) bool {
	if !slices.ContainsFunc(lacking, func(c charge) bool { return !e.share.alone(c.account) }) {
		return false
	}
	return slices.ContainsFunc(lacking, e.share.blocks)
}

// canDrain reports whether a request would fit in an account if enough became free.
func (l *Ledger) canDrain(e *entry, c charge) bool {
	switch {
	case c.tooLargeNow(), c.part != nil && c.part.unschedulable() != "":
		return false
	case c.host() != nil:
		note, _ := c.host().unschedulable()
		return note == "" && !l.closedTo(e, c.host())
	}
	return true
}

// closestHost returns the host with the largest part of a request free, of those that can be held
// for it; nil: there is none. The request's last hosts come after all others, the latest of them
// last.
func (l *Ledger) closestHost(e *entry) *host {
	for at := range len(e.lastHosts) + 1 {
		if h := l.closestBut(e, e.lastHosts[at:]); h != nil {
			return h
		}
	}
	return nil
}

// closestBut returns the closest host that can be held for a request and is not in avoid.
func (l *Ledger) closestBut(e *entry, avoid []string) *host {
	q := l.query(e)
	w := Wishes{}
	if e.Wishes != nil {
		w = *e.Wishes
	}
	w.Avoid = slices.Concat(w.Avoid, avoid)
	avoids := len(w.Avoid)
	q.Wishes = &w
	for range closestTried {
		slot := l.placer.Closest(q)
		if slot == NoSlot {
			return nil
		}
		h := l.slots[slot]
		if l.canHold(e, h) {
			return h
		}
		w.Avoid = append(w.Avoid, h.ID)
	}
	w.Avoid = w.Avoid[:avoids]
	return l.closestOfSize(e, q)
}

// closestOfSize returns the closest of some hosts that are large enough. Without it, hosts that are
// too small could come first because they have more free.
func (l *Ledger) closestOfSize(e *entry, q Query) (closest *host) {
	part, compared := -1.0, 0
	q.Rejected = func(slot Slot) bool {
		compared++
		h := l.slots[slot]
		if n := h.account.partOf(e.request()); n > part && l.canHold(e, h) {
			closest, part = h, n
		}
		return compared < sizesCompared
	}
	l.placer.Sized(q)
	return closest
}

// canHold reports whether a host can be held for a request.
func (l *Ledger) canHold(e *entry, h *host) bool {
	c := charge{account: &h.account, vector: e.request()}
	return l.unclaimed(c.account) && l.canDrain(e, c) && !e.share.blocks(c)
}

// unclaimed reports whether an account is not held, does not rest, and is not wanted by an earlier
// request of this visit.
func (l *Ledger) unclaimed(a *account) bool {
	return a.claim == nil && a.rests <= l.now && a.wanted != l.visits
}

// partOf returns the part of a request that is left in the account, by the scarcest dimension.
func (a *account) partOf(v resource.Vector) float64 {
	part := 1.0
	for dimension, asked := range v.All() {
		if left := max(0, a.left(dimension)); left < asked {
			part = min(part, float64(left)/float64(asked))
		}
	}
	return part
}

// hostFor returns the host for a request that names none: the host that is held for it, or the best
// one; nil: there is none now.
func (l *Ledger) hostFor(e *entry) *host {
	if h := e.claimedHost(); h != nil && h.fits(e.request()) && !l.closedTo(e, h) {
		return h
	}
	if slot := l.placer.Choose(l.query(e)); slot != NoSlot {
		return l.slots[slot]
	}
	return nil
}

// mayClaimHost reports whether one more host may be held for a request, if it lacks one.
func (l *Ledger) mayClaimHost(e *entry, lacking []charge) bool {
	if !slices.ContainsFunc(lacking, func(c charge) bool { return c.host() != nil }) {
		return true
	}
	alone := len(l.starved.items) < 2 // no request of another share is starved
	return len(l.claimedHosts) < l.mostClaimedHosts() && (alone || e.share.starved.hosts == 0)
}

// mostClaimedHosts returns the number of hosts that may be held.
func (l *Ledger) mostClaimedHosts() int { return max(1, len(l.hosts)/claimedHostsOf) }

// limitClaimedHosts ends the latest holds of hosts if they are too many for the present number of
// hosts.
func (l *Ledger) limitClaimedHosts() {
	for len(l.claimedHosts) > l.mostClaimedHosts() {
		latest := slices.MaxFunc(l.claimedHosts, func(a, b *host) int {
			x, y := a.account.claim, b.account.claim
			return cmp.Or(cmp.Compare(x.since, y.since), cmp.Compare(x.entry.ID, y.entry.ID))
		}).account.claim
		l.endClaim(latest.entry)
		l.setEntryTimer(latest.entry)
	}
}

// mayClaim reports whether more accounts may be held for a request, after the earlier holds of its
// share: see holders.go. If not, again is the time when they may; zero: when a hold of its share
// ends.
func (l *Ledger) mayClaim(e *entry, lacking []charge) (may bool, again Instant) {
	if len(lacking) == 0 || e.claim != nil && e.claim.shared != 0 {
		return true, 0
	}
	s := &e.share.starved
	shared := slices.ContainsFunc(lacking, charge.shared)
	if !shared && s.wantsShared == l.visits {
		return false, 0 // otherwise holds of hosts for one request would keep another from its turn
	}
	own := 0
	if e.claim != nil {
		own = 1
	}
	may, again = l.holders.mayHold(e.share.key, shared, own, l.now)
	if !may && shared {
		s.wantsShared = l.visits
	}
	return may, again
}

// shared reports whether the account is not a host's: all hosts depend on it.
func (c charge) shared() bool { return c.host() == nil }
