package ledger

import (
	"slices"

	"github.com/bursar/bursar/resource"
)

// # Queues that divide what there is
//
// A cluster may divide what a queue has among the queues below it that are active, and let
// masters have a portion of such a share. Then the first application in one queue makes the
// shares of the others smaller. Our own grants do that before any report shows it. So the limits
// of masters are computed at the moment of a decision, with these queues taken as active: in
// which the last report has applications, and in which something of ours is granted.
//
// A queue in which masters of ours are granted that the report does not show yet must keep its
// share until they have started. So a request that would be the first in its queue, and would
// take from such a queue what its masters need, waits until they have. As long as it waits for
// that, its queue counts as active, so that others do not go on for ever. What is not divided
// shrinks with each grant; so each grant leaves as much of it as such queues need.
//
// Next to a queue count how many active queues of each kind are below it: those that users make
// are all alike. So a share is computed in the time that the kinds take, in most clusters a few.

// Division is how a queue takes part when what the queue above has is divided among those below
// it that are active.
type Division struct {
	// Divided are the dimensions that are divided, of memory and cpu. What is not divided is
	// what nobody uses in the whole cluster.
	Divided []string
	// Weight is its weight among the queues beside it, at most, and LeastWeight at least. A
	// share is as large as Weight says, but no less than Least and no more than Most. Those of
	// the root are what there is. What Most does not list does not limit masters.
	Weight, LeastWeight int64
	Least, Most         resource.Vector
	// Masters is the portion of the share that masters may have, rounded up to a multiple of
	// Step; 0: they are not limited. Shares are rounded down to it.
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

// divisionClaim is what a queue claims of a dimension, in steps. Queues with the same claim have
// the same share.
type divisionClaim struct{ weight, least, most int64 }

// share is that of the claim by a ratio.
func (c divisionClaim) share(ratio float64) int64 {
	return int64(min(max(float64(c.weight)*ratio, float64(c.least)), float64(c.most)))
}

// claim is that of a dimension with a weight.
func (d *Division) claim(at divisionDimension, weight int64) divisionClaim {
	of, step := masterDimensions[at].whole, d.step(at)
	least := get(d.Least, of) / step
	return divisionClaim{weight: weight, least: least, most: max(least, get(d.Most, of)/step)}
}

func (d *Division) step(at divisionDimension) int64 {
	return max(1, get(d.Step, masterDimensions[at].whole))
}

// activity is how a cluster queue takes part in the division of the one above it, and how the
// active queues below it take part in that of its own.
type activity struct {
	as      *Division // it counts as active with this; nil: it does not count
	delayed bool      // the last request that it had room for must wait, see fitsDivision
	below   [len(masterDimensions)]map[divisionClaim]int
	ratios  [len(masterDimensions)]float64 // of the division among those below; negative: not computed
	of      uint64                         // the change of the cluster's that they are of
}

// division is that of a cluster.
type division struct {
	changes uint64 // of which queues are active, from 1 on
	// masters are the queues in which masters of ours may not have started, each with the least
	// that a part has there whose master may not have.
	masters map[*clusterQueue]resource.Vector
}

// division is how the queue takes part in the division of the one above; nil: it does not, or
// that is not known. One that the cluster does not have is made as the nearest one above says.
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

// runs reports whether the queue is active by the last report, or with what is granted.
func (q *clusterQueue) runs() bool {
	return q.account.held > 0 || q.report.Applications != nil && *q.report.Applications > 0
}

// updateActive counts the queue as active, or as not active any more.
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

// delayed reports whether a request waits that the queue has room for, until masters have
// started in other queues.
func (q *clusterQueue) delayed() bool {
	return q.active != nil && q.active.delayed && q.account.queue.waiting > 0
}

// hasActive reports whether a queue below is active.
func (q *clusterQueue) hasActive() bool {
	return q.active != nil && len(q.active.below[0])+len(q.active.below[1]) > 0
}

// activeAs is how the queue takes part as an active one; nil: it does not count as active.
func (q *clusterQueue) activeAs() *Division {
	if q.active == nil {
		return nil
	}
	return q.active.as
}

// setActive counts the queue as active with a division; nil: as not active. It reports whether
// that changes anything.
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

// share is what the queue, which counts as active, has of a dimension that is divided, in steps;
// 0: nothing, or the dimension is not divided.
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

// aloneActive reports whether one queue below is active, and no other, so that its weight does
// not matter. A weight of 1 may be none.
func (q *clusterQueue) aloneActive(at divisionDimension) bool {
	if len(q.active.below[at]) != 1 {
		return false
	}
	for c, n := range q.active.below[at] {
		return n == 1 && c.weight > 1
	}
	return false
}

// ratio is the steps that each weight gives in the division among the queues below.
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

// divided is the least ratio by which claims take what there is, as far as they can. One of the
// claims that count is another one.
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

// mastersLimit is what masters may have of a dimension in the queue, which counts as active, if
// so much is free in the cluster.
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

// free is what is free of a dimension in the cluster.
func (d divisionDimension) free(q *clusterQueue) int64 {
	for q.parent != nil {
		q = q.parent
	}
	return q.account.available(masterDimensions[d].whole)
}

// whileActive does something while the queue, and those above, count as active.
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

// whileInactive does something while the queue, and those above, count as active only with what
// runs there.
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

// updateMasters gives the account of the queue what masters may have if the queue is active.
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

// estimated are the dimensions of the queue's limit that its cluster does not tell: those of the
// report, and those that are computed for the queues that are active now.
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
