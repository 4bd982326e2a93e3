package ledger

import (
	"slices"

	"github.com/bursar/bursar/resource"
)

// # Queues that divide their resources
//
// A cluster may divide a queue's resources among the active queues below it, and let masters have a
// portion of such a share. Then the first application in one queue makes the shares of the others
// smaller. Our own grants do that before any report shows it. So the ledger computes the limits of
// masters at the moment of a decision. A queue counts as active if the last report has applications
// in it, or if the ledger has granted something in it.
//
// A queue with granted masters that the report does not show yet must keep its share until they
// have started. So a request waits if it would be the first in its queue and would take the
// resources that such masters need. While it waits for that, its queue counts as active, so that
// others do not go on forever. The undivided resources shrink with each grant, so each grant leaves
// as much of them as such queues need.
//
// A queue holds the number of active queues of each kind below it: queues that users make are all
// alike. So the time for computing a share depends on the number of kinds, in most clusters a few.

// Division is how a queue takes part when the resources of the queue above are divided among its
// active children.
type Division struct {
	// Divided are the divided dimensions, of memory and cpu. Of other dimensions the share is the
	// amount that nobody uses in the whole cluster.
	Divided []string
	// Weight is the greatest weight among the queues next to it, LeastWeight the least. A share is
	// proportional to Weight, but no less than Least and no more than Most. Those of the root are
	// its whole resources. A dimension that Most does not list does not limit masters.
	Weight, LeastWeight int64
	Least, Most         resource.Vector
	// Masters is the masters' portion of the share, rounded up to a multiple of Step; 0: masters
	// are not limited. Shares are rounded down to Step.
	Masters float64
	Step    resource.Vector
}

// divisionDimension is the index of a dimension in masterDimensions.
type divisionDimension int

// divides reports whether the dimension is divided.
func (d *Division) divides(at divisionDimension) bool {
	return slices.Contains(d.Divided, masterDimensions[at].whole)
}

// limits reports whether masters are limited in the dimension.
func (d *Division) limits(at divisionDimension) bool {
	return d.Masters > 0 && d.Most.Has(masterDimensions[at].whole)
}

// divisionClaim is a queue's claim to a dimension, in steps. Queues with the same claim have the
// same share.
type divisionClaim struct{ weight, least, most int64 }

// share returns the share of the claim by a ratio.
func (c divisionClaim) share(ratio float64) int64 {
	return int64(min(max(float64(c.weight)*ratio, float64(c.least)), float64(c.most)))
}

// claim returns the claim to a dimension with a weight.
func (d *Division) claim(at divisionDimension, weight int64) divisionClaim {
	of, step := masterDimensions[at].whole, d.step(at)
	least := get(d.Least, of) / step
	return divisionClaim{weight: weight, least: least, most: max(least, get(d.Most, of)/step)}
}

func (d *Division) step(at divisionDimension) int64 {
	return max(1, get(d.Step, masterDimensions[at].whole))
}

// activity is how a cluster queue takes part in the division of the one above it, and how the
// active queues below it take part in its own division.
type activity struct {
	as      *Division // it counts as active with this; nil: it does not count
	delayed bool      // the last request that it had room for must wait, see fitsDivision
	below   [len(masterDimensions)]map[divisionClaim]int
	ratios  [len(masterDimensions)]float64 // of the division among those below; negative: not computed
	of      uint64                         // the division.changes at which the ratios were computed
}

// division is the state of divisions in a cluster.
type division struct {
	changes uint64 // number of changes in the set of active queues, from 1 on
	// masters are the queues in which masters of ours may not have started, each with the smallest
	// part whose master may not have.
	masters map[*clusterQueue]resource.Vector
}

// division returns how the queue takes part in the division of the one above; nil: it does not, or
// that is unknown. A queue that the cluster does not have would be created as the nearest existing
// queue above it says.
func (q *clusterQueue) division() *Division {
	if q.of != nil {
		return nil
	}
	at := q
	for at != nil && !at.known {
		at = at.parent
	}
	switch {
	case at == nil || at.report.Details == nil:
		return nil
	case at == q:
		return q.report.Details.Division
	}
	return at.report.Details.ChildDivision
}

// runs reports whether the queue is active by the last report, or by our grants.
func (q *clusterQueue) runs() bool {
	return q.account.held > 0 || q.report.Applications != nil && *q.report.Applications > 0
}

// updateActive recomputes whether the queue counts as active.
func (q *clusterQueue) updateActive() {
	for ; q != nil && q.of == nil; q = q.parent {
		as := q.division()
		if as != nil && !q.runs() && !q.delayed() && !q.hasActive() {
			as = nil
		}
		if !q.setActive(as) {
			return
		}
	}
}

// delayed reports whether a request for which the queue has room waits until masters have started
// in other queues.
func (q *clusterQueue) delayed() bool {
	return q.active != nil && q.active.delayed && q.account.queue.waiting > 0
}

// hasActive reports whether a queue below is active.
func (q *clusterQueue) hasActive() bool {
	return q.active != nil && len(q.active.below[0])+len(q.active.below[1]) > 0
}

// activeAs returns the Division with which the queue counts as active; nil: it does not count.
func (q *clusterQueue) activeAs() *Division {
	if q.active == nil {
		return nil
	}
	return q.active.as
}

// setActive counts the queue as active with a division; nil: as not active. It reports whether that
// is a change.
func (q *clusterQueue) setActive(as *Division) (changed bool) {
	before := q.activeAs()
	if before == as {
		return false
	}
	q.activity().as = as
	q.cluster.division.changes++
	if q.parent == nil {
		return true
	}
	q.parent.countActive(before, -1)
	q.parent.countActive(as, 1)
	return true
}

func (q *clusterQueue) activity() *activity {
	if q.active == nil {
		q.active = new(activity)
	}
	return q.active
}

// countActive counts a queue below.
func (q *clusterQueue) countActive(d *Division, by int) {
	if d == nil {
		return
	}
	for at := range divisionDimension(len(masterDimensions)) {
		below := &q.activity().below[at]
		if *below == nil {
			*below = make(map[divisionClaim]int)
		}
		c := d.claim(at, d.Weight)
		if (*below)[c] += by; (*below)[c] == 0 {
			delete(*below, c)
		}
	}
}

// share returns the share of a queue that counts as active, in steps; 0: it has none, or the
// dimension is not divided.
func (q *clusterQueue) share(at divisionDimension) int64 {
	d := q.activeAs()
	switch {
	case d == nil || !d.divides(at):
		return 0
	case q.parent == nil:
		return d.claim(at, 0).most
	}
	counts, own := d.claim(at, d.Weight), d.claim(at, d.LeastWeight)
	switch {
	case counts == own:
		return own.share(q.parent.ratio(at))
	case q.parent.aloneActive(at):
		return min(own.most, q.parent.share(at)) // whatever its weight is
	}
	return own.share(divided(q.parent.share(at), q.parent.active.below[at], counts, own))
}

// aloneActive reports whether exactly one queue below is active, so that its weight does not
// matter. A weight of 1 may be none.
func (q *clusterQueue) aloneActive(at divisionDimension) bool {
	if len(q.active.below[at]) != 1 {
		return false
	}
	for c, n := range q.active.below[at] {
		return n == 1 && c.weight > 1
	}
	return false
}

// ratio returns the steps for each unit of weight in the division among the queues below.
func (q *clusterQueue) ratio(at divisionDimension) float64 {
	a := q.activity()
	if a.of != q.cluster.division.changes {
		a.of, a.ratios = q.cluster.division.changes, [len(masterDimensions)]float64{-1, -1}
	}
	if a.ratios[at] < 0 {
		a.ratios[at] = divided(q.share(at), a.below[at], divisionClaim{}, divisionClaim{})
	}
	return a.ratios[at]
}

// divided returns the least ratio by which the claims take the whole total, as far as they can. One
// of the claims is replaced by instead.
func divided(total int64, claims map[divisionClaim]int, one, instead divisionClaim) float64 {
	type alike struct {
		divisionClaim

		queues int64
	}
	list := make([]alike, 0, len(claims)+1)
	for c, n := range claims {
		if c == one && one != instead {
			n--
		}
		list = append(list, alike{c, int64(n)})
	}
	if one != instead {
		list = append(list, alike{instead, 1})
	}
	taken := func(ratio float64) (n int64) {
		for _, c := range list {
			n += c.queues * c.share(ratio)
		}
		return n
	}
	most := int64(0)
	for _, c := range list {
		if c.weight == 0 {
			c.most = c.least
		}
		most += c.queues * c.most
	}
	total = min(total, most)
	low, high := 0.0, 1.0
	for taken(high) < total {
		high *= 2
	}
	for range 50 {
		if middle := (low + high) / 2; taken(middle) < total {
			low = middle
		} else {
			high = middle
		}
	}
	return high
}

// mastersLimit returns the limit of masters in a dimension of a queue that counts as active. free
// is the free amount in the cluster.
func (q *clusterQueue) mastersLimit(at divisionDimension, free int64) int64 {
	d := q.activeAs()
	n := q.share(at)
	if n == 0 { // it has no share: then it is what is free
		n = min(d.claim(at, 0).most, max(0, free)/d.step(at))
		if d.divides(at) && d.Weight > 0 {
			n = min(n, 1) // or it has a small one
		}
	}
	of := float64(n) * d.Masters
	whole := int64(of)
	if float64(whole) < of {
		whole++
	}
	return whole * d.step(at)
}

// free returns the free amount of a dimension in the cluster.
func (d divisionDimension) free(q *clusterQueue) int64 {
	for q.parent != nil {
		q = q.parent
	}
	return q.account.available(masterDimensions[d].whole)
}

// whileActive calls do while the queue, and those above, count as active.
func (q *clusterQueue) whileActive(do func()) {
	var changed []*clusterQueue
	for at := q; at != nil && at.activeAs() == nil; at = at.parent {
		if at.setActive(at.division()) {
			changed = append(changed, at)
		}
	}
	do()
	for _, at := range changed {
		at.setActive(nil)
	}
}

// whileInactive calls do while the queue, and those above, count as active only if they run
// something.
func (q *clusterQueue) whileInactive(do func()) {
	type counted struct {
		queue *clusterQueue
		as    *Division
	}
	var changed []counted
	for at := q; at != nil && !at.runs() && (at == q || !at.hasActive()); at = at.parent {
		before := at.activeAs()
		if at.setActive(nil) {
			changed = append(changed, counted{at, before})
		}
	}
	do()
	for _, c := range changed {
		c.queue.setActive(c.as)
	}
}

// updateMasters gives the queue's account the limit of masters of an active queue.
func (q *clusterQueue) updateMasters() {
	d := q.division()
	if d == nil || d.Masters == 0 {
		return
	}
	limit := q.account.limit
	q.whileActive(func() {
		for at := range divisionDimension(len(masterDimensions)) {
			if d.limits(at) {
				limit = limit.With(masterDimensions[at].master, q.mastersLimit(at, at.free(q)))
			}
		}
	})
	if !limit.EqualTo(q.account.limit) {
		q.account.setLimit(limit, resource.Vector{})
	}
}

// estimated returns the dimensions of the queue's limit that its cluster does not report: those of
// the report, and those that the ledger computes for the queues that are active now.
func (q *clusterQueue) estimated() (list []string) {
	if q.report.Details != nil {
		list = q.report.Details.Estimated
	}
	for _, d := range masterDimensions {
		now, limited := q.account.limit.Get(d.master)
		said, told := q.report.Limit.Get(d.master)
		if limited && (!told || now != said) && !slices.Contains(list, d.master) {
			list = append(slices.Clip(list), d.master)
		}
	}
	return list
}
