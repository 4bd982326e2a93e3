package ledger

import (
	"cmp"
	"maps"
	"slices"
	"sort"

	"github.com/bursar/bursar/label"
	"github.com/bursar/bursar/resource"
)

// A refusal has one of two verdicts. Never: something that its owner has set is smaller than the
// request, that is the limit of a quota, the maximum of a cluster queue, or the size of the host
// that the request names. Not now: everything else, also if no host is there yet, or none that
// large, since one may come.

// refusal refuses a request: for good if it can never fit, else with everything that is short now.
func (l *Ledger) refusal(e *entry) *InsufficientError {
	if never := l.never(e); never != nil {
		return never
	}
	return l.insufficient(e)
}

// never refuses a request that could not be granted even if everything else ended; nil: it could.
// It does not judge hosts until they had the time to report after a load, and does not judge
// cluster queues of which nothing is known.
func (l *Ledger) never(e *entry) *InsufficientError {
	var list []Shortfall
	for c := range l.charges(e).all {
		h := c.host()
		switch {
		case h == nil && c.tooLarge():
			if c.part != nil {
				list = c.part.queue.neverShortfalls(list, c.vector)
			} else {
				list = c.account.shortfalls(list, c.vector)
			}
		case h != nil && l.now >= l.hostsBack && h.neverFits(c.vector):
			before := len(list)
			list = h.account.shortfalls(list, c.vector)
			l.judgeSize(list[before:], e, h)
		}
	}
	if len(list) == 0 {
		return nil
	}
	for i := range list {
		s := &list[i]
		switch {
		case s.Note != NoteNever:
		case s.Account.OfParts(): // they are not rounded
			s.Largest = max(s.Largest, s.Limit)
		default:
			s.Largest = l.rules.largest(e.Labels, s.Dimension, s.Limit)
		}
	}
	return &InsufficientError{Reason: ReasonNever, Never: true, Shortfalls: list}
}

// growthRefusal refuses a resize for what an entitlement would grow by. It is for good if the new
// size, where it grows, is more than an account can give.
func (l *Ledger) growthRefusal(e, more *entry, next resource.Resource) *InsufficientError {
	grown := entry{Allocation: Allocation{Labels: e.Labels, HostID: e.HostID}, accountSet: e.accountSet}
	grown.Entitled.Vector = whereIn(next.Vector, more.Entitled.Vector)
	if more.external != nil {
		grown.external = &external{charges: slices.Clone(more.external.charges), set: more.external.set}
		for i, grows := range more.external.growth {
			grown.external.growth = append(grown.external.growth, whereIn(more.external.set.limits[i].sum(next.External), grows))
		}
		for i := range grown.external.charges {
			t := &grown.external.charges[i]
			after := t.queue.sum(next.External, func(part int) resource.Vector { return next.External[part].Vector })
			t.vector = whereIn(after, t.vector)
		}
	}
	never := l.never(&grown)
	if never == nil {
		refusal := l.insufficient(more)
		for i := range refusal.Shortfalls {
			e.showWhole(&refusal.Shortfalls[i], next)
		}
		return refusal
	}
	for i := range never.Shortfalls { // what it has is available to it, and a resize is not rounded
		s := &never.Shortfalls[i]
		s.Available = min(s.Limit, s.Available+get(e.wouldAsk(s.Account, e.Entitled), s.Dimension))
		if s.Note == NoteNever {
			s.Largest = max(s.Largest, s.Limit)
		}
	}
	return never
}

// showWhole makes of the shortfall of the entry's growth that of its whole next size, which is what
// was asked for. What the entry holds already is there for it.
func (e *entry) showWhole(s *Shortfall, next resource.Resource) {
	size := e.wouldAsk(s.Account, next)
	lack := s.Requested - s.Available
	s.Requested = get(size, s.Dimension)
	s.Available = max(0, s.Requested-lack)
	if t := e.queueCharge(s.Account); t != nil && s.Note == "" {
		t.queue.account.judgeLimit(s)
	}
}

// wouldAsk is what an entry would ask of one of its accounts with another entitlement to the same
// parts.
func (e *entry) wouldAsk(of AccountName, r resource.Resource) resource.Vector {
	if !of.OfParts() {
		return r.Vector
	}
	if t := e.queueCharge(of); t != nil {
		return t.queue.sum(r.External, func(part int) resource.Vector { return r.External[part].Vector })
	}
	for i := range e.external.set.limits {
		if limit := &e.external.set.limits[i]; limit.account.name.Equal(of) {
			return limit.sum(r.External)
		}
	}
	return resource.Vector{}
}

// whereIn is what v has in the dimensions of which w has something.
func whereIn(v, w resource.Vector) resource.Vector {
	least := resource.Vector{}
	for dimension, quantity := range w.All() {
		if quantity > 0 {
			least = least.With(dimension, get(v, dimension))
		}
	}
	return least
}

// largest is the most of a dimension that a request with these labels may ask for, if the rules
// must not round it up beyond a limit. It is 0 if they round up everything beyond.
func (rs *ruleset) largest(labels label.Set, dimension string, most int64) int64 {
	if !rs.normalizing {
		return most
	}
	return int64(sort.Search(int(most), func(n int) bool {
		v, err := rs.normalize(labels, resource.Vector{}.With(dimension, int64(n)+1))
		return err != nil || get(v, dimension) > most
	}))
}

// neverFits reports whether the host is smaller than the request, even if it has again what it
// misses.
func (h *host) neverFits(request resource.Vector) bool {
	for dimension, asked := range request.All() {
		if asked > h.account.mostOf(dimension) && !h.misses(dimension) {
			return true
		}
	}
	return false
}

// misses reports whether the host declares a custom countable and has none of it at the moment,
// such as devices that its agent cannot count.
func (h *host) misses(dimension string) bool {
	switch dimension {
	case resource.Memory, resource.CPU, resource.Instances:
		return false
	}
	n, declared := h.Capacity.Get(dimension)
	return declared && n == 0
}

// judgeSize corrects what an account says of its limit if it is a host's: a host's size is a limit
// for good only for who named that host.
func (l *Ledger) judgeSize(list []Shortfall, e *entry, h *host) {
	for i := range list {
		s := &list[i]
		switch {
		case s.Note != NoteNever:
		case h.misses(s.Dimension):
			s.Note, s.Detail = NoteMissing, ""
		case e.HostID == "" || l.now < l.hostsBack:
			s.Note = ""
		}
	}
}

// closedReasons bounds how many reasons a survey tells.
const closedReasons = 8

// mostSurveyed bounds how many hosts a survey looks at. One takes 10 to 100 ns, so that a survey
// takes less than half a millisecond.
const mostSurveyed = 4096

// survey counts what each filter removes, and why hosts are closed. In a large fleet it looks at an
// even sample of the hosts.
func (l *Ledger) survey(e *entry, q Query) *HostFilters {
	var closed map[ClosedHosts]int // the keys count no hosts
	q.Closed = func(slot Slot) {
		if closed == nil {
			closed = make(map[ClosedHosts]int)
		}
		h := l.slots[slot]
		note, reason := h.unschedulable()
		switch {
		case h.Left:
			reason = "agent ended"
		case note != NoteHealth:
			reason = h.Reason
		}
		closed[ClosedHosts{Note: note, Reason: reason}]++
	}
	if n := len(l.hosts); n > mostSurveyed {
		q.Stride = uint64((n + mostSurveyed - 1) / mostSurveyed)
	}
	filters := l.placer.Survey(q)
	if filters.Total < len(l.hosts) {
		filters.Fleet = len(l.hosts)
	}
	for _, c := range slices.SortedFunc(maps.Keys(closed), func(a, b ClosedHosts) int {
		return cmp.Or(cmp.Compare(closed[b], closed[a]), cmp.Compare(a.Note, b.Note), cmp.Compare(a.Reason, b.Reason))
	}) {
		if len(filters.Closed) == closedReasons {
			break
		}
		c.Hosts = closed[c]
		filters.Closed = append(filters.Closed, c)
	}
	l.surveyHeld(&filters, e, q)
	if filters.Labels == filters.Total {
		filters.Unmet = l.unmet(e)
	}
	return &filters
}

// surveyHeld counts the hosts that are large enough but for what is kept there for another request:
// the Placer knows only what is left next to that. The host that is held for the request itself is
// one that it fits on.
func (l *Ledger) surveyHeld(filters *HostFilters, e *entry, q Query) {
	for _, h := range l.claimedHosts {
		if !q.Surveys(h.slot) || !h.suits(q.Wishes) || avoids(q.Wishes, h) || q.Rejected != nil && q.Rejected(h.slot) {
			continue
		}
		if !h.fits(q.Request) || !h.account.keeps(q.Request) {
			continue
		}
		filters.Headroom--
		if h.account.claim.entry == e {
			filters.Fit++
		} else {
			filters.Held++
		}
	}
}
