package ledger

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// An outage is time in which no coordinator led: from the latest time that the store has to the
// next load. It also covers a clock that was behind and is right at the next start. Time in an
// outage ends nothing: every deadline that was ahead when it began moves by its length.
//
// Rows keep the deadlines that they were written with. A row that was written before an outage has
// a revision up to that of the outage; its deadlines move whenever it is loaded.
type outage struct {
	revision uint64 // of the ledger when it began
	// from is when it began, in whole milliseconds. to is when it was over: length later, or more
	// if this stands for several outages.
	from, to Instant
	length   time.Duration // in whole milliseconds, rounded up
}

// Outages are those that the store knows, in order.
type Outages []outage

// mostOutages bounds the list, which is in the row of meta that every commit writes. The oldest two
// become one if there are more. A deadline that was set between these two moves by both.
const mostOutages = 24

// outageStep is the precision of outages.
const outageStep = Instant(time.Millisecond)

// with returns the list with one more outage.
func (o Outages) with(revision uint64, from, to Instant) Outages {
	next := outage{revision: revision, from: from / outageStep * outageStep}
	next.length = time.Duration((to - from + outageStep - 1) / outageStep * outageStep)
	next.to = next.from.Add(next.length)
	list := append(slices.Clone(o), next)
	if len(list) > mostOutages {
		first, second := list[0], list[1]
		list[1] = outage{second.revision, first.from, second.to, first.length + second.length}
		list = list[1:]
	}
	return list
}

// moved is a deadline of a row after the outages since the row was written.
func (o Outages) moved(deadline Instant, revision uint64) Instant {
	return o.move(deadline, func(out outage) bool { return revision <= out.revision })
}

// After is the time d after another one, moved by the outages since then.
func (o Outages) After(at Instant, d time.Duration) Instant {
	return o.move(later(at, d), func(out outage) bool { return at < out.to })
}

func (o Outages) move(deadline Instant, concerns func(outage) bool) Instant {
	if deadline == 0 {
		return 0
	}
	for _, out := range o {
		if deadline >= out.from && concerns(out) {
			deadline = later(deadline, out.length)
		}
	}
	return deadline
}

// Before is the time from which coordinators have led for d until now.
func (o Outages) Before(now Instant, d time.Duration) Instant {
	at := now.Add(-d)
	for _, out := range slices.Backward(o) {
		if at < out.to {
			at = at.Add(-out.length)
		}
	}
	return at
}

// later is d after a time, but no later than a ledger's time can be.
func later(at Instant, d time.Duration) Instant {
	if at >= MaxInstant || d > MaxInstant.Sub(at) {
		return max(at, MaxInstant)
	}
	return at.Add(d)
}

// Text is the list as a store keeps it.
func (o Outages) Text() string {
	var b strings.Builder
	for _, out := range o {
		fmt.Fprintf(&b, "%d:%d:%d:%d ", out.revision, out.from/outageStep, out.to/outageStep, out.length.Milliseconds())
	}
	return b.String()
}

// ReadOutages reads a Text. Of a damaged list it returns the readable outages: without an outage,
// deadlines only come earlier.
func ReadOutages(text string) (o Outages) {
	for field := range strings.FieldsSeq(text) {
		var out outage
		var from, to, length int64
		if n, err := fmt.Sscanf(field, "%d:%d:%d:%d", &out.revision, &from, &to, &length); n != 4 || err != nil {
			continue
		}
		const most = int64(MaxInstant / outageStep)
		if from < 0 || to < from || length < 0 || to > most || length > most || len(o) == mostOutages {
			continue
		}
		out.from, out.to, out.length = Instant(from)*outageStep, Instant(to)*outageStep, time.Duration(length)*time.Millisecond
		o = append(o, out)
	}
	return o
}

// Until returns the outages with the one that ends now, if there is one: if the latest time that
// the store has, in a state with this revision, is before now.
func (o Outages) Until(now Instant, revision uint64, latest Instant) (list Outages, more bool) {
	if latest <= 0 || latest >= now {
		return o, false
	}
	return o.with(revision, latest, now), true
}

// leaseGraces bounds how far loads extend a lease that nobody renews: to at most so many times its
// length beyond its end, in time in which coordinators led. Without a bound, the lease of a dead
// owner would never end while a coordinator starts again and again.
const leaseGraces = 3

// outlive moves the deadlines of a row that was loaded, or that is loaded still, by the outages
// that it does not know.
func (e *entry) outlive(o Outages) {
	revision := e.Revision
	e.Expires, e.WaitDeadline = o.moved(e.Expires, revision), o.moved(e.WaitDeadline, revision)
}

// graced is when a reservation or a lease ends that is loaded: its owner could not renew it while
// no coordinator led, and may not know yet where one is. A lease gets its length, a reservation one
// interval.
func (l *Ledger) graced(e *entry) Instant {
	grace := l.Interval()
	if e.State == Active {
		grace = max(grace, e.ttl())
	}
	return max(e.Expires, min(later(l.now, grace), later(e.Expires, leaseGraces*grace)))
}
