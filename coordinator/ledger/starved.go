package ledger

import "slices"

// grants remembers the youngest requests that an account has granted something to, by their
// priority. Each entry is of a higher priority and younger than the one before: else a lower one
// says as much.
type grants []granted

type granted struct {
	priority int32
	id       ID
}

// mostPriorities bounds the priorities that an account remembers. Only an experiment would use more
// at the same time.
const mostPriorities = 8

// add remembers a grant. Most requests are granted in the order of their ids, so that the latest
// one replaces all before it.
func (g *grants) add(e *entry) {
	list := *g
	kept := list[:0]
	for _, other := range list {
		switch {
		case other.priority <= e.Priority && other.id >= e.ID:
			return // it is the first such, so that nothing was moved
		case other.priority < e.Priority || other.id > e.ID:
			kept = append(kept, other)
		}
	}
	if len(kept) < mostPriorities {
		kept = append(kept, granted{e.Priority, e.ID})
	}
	*g = kept
}

// passed reports whether a request that came after this one, and is no more urgent, got something
// of the account.
func (g grants) passed(e *entry) bool {
	for _, other := range g {
		if other.priority <= e.Priority && other.id > e.ID {
			return true
		}
	}
	return false
}

// starvation is the requests of one share that are starved, and when something was last held for
// the share.
type starvation struct {
	requests heap[*entry]
	index    int     // in the ledger's heap
	last     Instant // when a hold of it last began or ended; see holders.last
	hosts    int     // that are held for requests of it now
	visited  int     // requests of it in the present visit
	// wantsShared is the visit in which shared accounts could not be held for a request of it.
	wantsShared uint64
}

// starvedBefore orders the starved requests of one share: the most urgent first, then the one that
// is starved, and for which nothing was held, for the longest time.
func starvedBefore(a, b *entry) bool {
	switch {
	case a.Priority != b.Priority:
		return a.Priority > b.Priority
	case max(a.PassedSince, a.turn) != max(b.PassedSince, b.turn):
		return max(a.PassedSince, a.turn) < max(b.PassedSince, b.turn)
	case a.turn != b.turn:
		return a.turn < b.turn
	}
	return a.ID < b.ID
}

// shareBefore orders shares by their first starved requests: the most urgent, then the one for
// whose share nothing was held for the longest time, then the longest starved.
func shareBefore(a, b *share) bool {
	x, y := a.starved.requests.items[0], b.starved.requests.items[0]
	if x.Priority == y.Priority && a.starved.last != b.starved.last {
		return a.starved.last < b.starved.last
	}
	return starvedBefore(x, y)
}

func newStarved() heap[*share] {
	return heap[*share]{before: shareBefore, moved: func(s *share, i int) { s.starved.index = i }}
}

// addStarved adds a starved request to those of its share.
func (l *Ledger) addStarved(e *entry) {
	s := &e.share.starved
	if s.requests.before == nil {
		s.requests = heap[*entry]{before: starvedBefore, moved: func(e *entry, i int) { e.starvedIndex = i }}
	}
	e.starved = true
	s.requests.push(e)
	if len(s.requests.items) == 1 {
		l.starved.push(e.share)
	} else {
		l.starved.fix(s.index)
	}
}

// removeStarved takes a request out of those of its share, if it is there.
func (l *Ledger) removeStarved(e *entry) {
	if !e.isStarved() {
		return
	}
	s := &e.share.starved
	e.starved = false
	if len(s.requests.items) == 1 {
		l.starved.remove(s.index)
		s.requests.remove(0)
		return
	}
	s.requests.remove(e.starvedIndex)
	l.starved.fix(s.index)
}

// firstStarved returns the starved requests that may get a hold now, in their order: a few of each
// share, so that no share keeps those of all others from being visited.
func (l *Ledger) firstStarved() []ID {
	ids := make([]ID, 0, starvedVisited)
	list := make([]*entry, 0, starvedVisited)
	var had []*share // as many as they may
	for len(l.starved.items) > 0 && len(list) < starvedVisited {
		s := l.starved.items[0]
		e := s.starved.requests.items[0]
		l.removeStarved(e)
		list = append(list, e)
		if s.starved.visited++; s.starved.visited == starvedOfShare && len(s.starved.requests.items) > 0 {
			l.starved.remove(s.starved.index)
			had = append(had, s)
		}
	}
	for _, s := range had {
		l.starved.push(s)
	}
	for _, e := range list {
		e.share.starved.visited = 0
		l.addStarved(e)
		ids = append(ids, e.ID)
	}
	return ids
}

// starvationDue is when it is next checked whether a waiting request is starved; zero: it is not
// checked. Only the first of its kind is: the others are younger.
func (l *Ledger) starvationDue(e *entry) Instant {
	if e.starved || e.class == nil || e.class.first() != e {
		return 0
	}
	return max(e.waitsSince.Add(l.cfg.StarvationAfter), e.nextCheck)
}

// checkStarvation finds out whether a request that has waited for long is starved: another one
// that came later, and is no more urgent, got something that it lacks.
func (l *Ledger) checkStarvation(e *entry) {
	l.checks++
	e.nextCheck = l.now.Add(l.cfg.StarvationAfter)
	if l.starvationDue(e) != 0 && l.passedOver(e) {
		if e.PassedSince == 0 {
			e.PassedSince = l.now
		}
		l.addStarved(e)
		l.visitDue = true
	}
	l.setEntryTimer(e)
}

func (l *Ledger) passedOver(e *entry) bool {
	if e.PassedSince != 0 {
		return true
	}
	lacking, _ := l.lacks(e)
	if slices.ContainsFunc(lacking, func(c charge) bool { return c.account.grants.passed(e) }) {
		return true
	}
	lacksHost := e.class.group.queue == &l.anyHost || slices.ContainsFunc(lacking, func(c charge) bool { return c.host() != nil })
	return e.HostID == "" && lacksHost && l.passedOnHosts(e)
}

// hostGrant is a grant on a host.
type hostGrant struct {
	granted
	host *host
}

// hostGrants are the latest grants on all hosts, in a ring.
type hostGrants struct {
	list [hostGrantsKept]hostGrant
	next int
}

// hostGrantsKept is how many of them are kept. If one host of 20 is one that a request can go to,
// 19 of 20 checks find a grant there among so many.
const hostGrantsKept = 64

func (g *hostGrants) add(e *entry, h *host) {
	g.list[g.next] = hostGrant{granted{e.Priority, e.ID}, h}
	g.next = (g.next + 1) % hostGrantsKept
}

// passedOnHosts reports whether a request that came after this one, which waits for any host, and
// is no more urgent, got something of a host that this one could go to. Only the latest grants are
// looked at; if they are all on other hosts, the next check looks again.
func (l *Ledger) passedOnHosts(e *entry) bool {
	for i := range l.hostGrants.list {
		g := &l.hostGrants.list[i]
		if g.host != nil && g.priority <= e.Priority && g.id > e.ID && g.host.suits(e.Wishes) && !avoids(e.Wishes, g.host) &&
			g.host.account.couldEverFit(e.request()) {
			return true
		}
	}
	return false
}
