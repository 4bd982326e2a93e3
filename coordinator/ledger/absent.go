package ledger

import (
	"strings"

	"github.com/bursar/bursar/coordinator/hostlabels"
	"github.com/bursar/bursar/resource"
)

// Requests that no host there is could ever take wait in a queue of their own, Ledger.absent,
// whatever else they lack. That queue is woken only when a host comes, gets other labels or another
// size. So these requests cost nothing when hosts report or other engines end, and nothing is held
// for them.

// hostless reports whether no host that is there could take the request even if nothing ran: the
// one that it names is not there, none has the labels, or those that have them are too small.
func (l *Ledger) hostless(e *entry) bool {
	if e.HostID == "" {
		return !l.possible(e)
	}
	h := l.hosts[e.HostID]
	return h == nil || !h.suits(e.Wishes) || !h.account.couldEverFit(e.request())
}

// possible reports whether a host that is there, and that the request does not avoid, could take it
// if nothing ran there.
func (l *Ledger) possible(e *entry) bool {
	return l.placer.Possible(Query{Request: e.request(), Wishes: e.Wishes})
}

// hostShaped says that a host has come, or has other labels or another size: it may be one that
// requests wait for.
func (l *Ledger) hostShaped(h *host) {
	l.shapes++
	if a := &h.account; !l.absent.hopeless(a.most) {
		l.mark(&l.absent)
	}
}

// why says what blocks a request that stands in a queue.
func (l *Ledger) why(q *queue, e *entry) string {
	switch {
	case q == &l.absent:
		return l.absence(e)
	case q.account == nil:
		return "waits for a host"
	default:
		return "waits for " + q.account.name.String()
	}
}

// whyWaits is why for a class in its queue. Which host is missing is worked out again only after
// the hosts have changed.
func (l *Ledger) whyWaits(c *class) string {
	if c.group.queue != &l.absent {
		return l.why(c.group.queue, c.first())
	}
	if c.absence == "" || c.absenceOf != l.shapes {
		c.absence, c.absenceOf = l.absence(c.first()), l.shapes
	}
	return c.absence
}

// absence says which host a request waits for that is not there, and what is there.
func (l *Ledger) absence(e *entry) string {
	if e.HostID != "" {
		h := l.hosts[e.HostID]
		if h == nil {
			return "waits for host " + e.HostID + ": there is no such host yet"
		}
		if !h.suits(e.Wishes) {
			return "waits for host " + h.ID + " to have " + hostlabels.Lacks(h.Labels, e.Wishes.conditions())
		}
		asked, has := h.tooSmallFor(e.request())
		return "waits for host " + h.ID + " to have " + asked + ": it has " + has
	}
	slot := l.placer.Largest(Query{Request: e.request(), Wishes: e.Wishes})
	switch {
	case len(l.hosts) == 0:
		return "waits for a host: none is there yet"
	case slot == NoSlot:
		if unmet := l.unmet(e); unmet != "" {
			return "waits for a host with the required labels, none is there yet: " + unmet
		}
		return "waits for a host that is not to be avoided: none is there yet"
	}
	h := l.slots[slot]
	asked, has := h.tooSmallFor(e.request())
	return "waits for a host with " + asked + ": none is there yet, the largest, " + h.ID + ", has " + has
}

// noSuchHost says that the host that a request names is not there.
func (e *entry) noSuchHost() Shortfall {
	a := account{name: hostName(e.HostID)}
	s := a.closedShortfall(e.request(), NoteMissing)
	s.Detail = "there is no such host yet"
	return s
}

// tooSmallFor names the first two dimensions in which the host is smaller than the request.
func (h *host) tooSmallFor(request resource.Vector) (asked, has string) {
	var wanted, there []string
	for dimension, n := range request.All() {
		if most := h.account.mostOf(dimension); n > most && len(wanted) < 2 { // a reason is short
			wanted = append(wanted, resource.FormatQuantity(dimension, n)+" of "+dimension)
			there = append(there, resource.FormatQuantity(dimension, most))
		}
	}
	return strings.Join(wanted, " and "), strings.Join(there, " and ")
}

// tooSmall appends in which dimensions the largest host that is there is smaller than the request,
// which no host could take.
func (l *Ledger) tooSmall(list []Shortfall, e *entry) []Shortfall {
	slot := l.placer.Largest(Query{Request: e.request(), Wishes: e.Wishes})
	if slot == NoSlot {
		return list
	}
	a := &l.slots[slot].account
	for dimension, asked := range e.request().All() {
		if asked > a.mostOf(dimension) {
			list = append(list, a.shortfall(dimension, asked, a.available(dimension), NoteTooSmall))
		}
	}
	return list
}
