package ledger

import (
	"cmp"
	"slices"
	"strings"

	"github.com/bursar/bursar/resource"
)

// external is where the external parts of an allocation count. Their addresses change only if a
// part follows its application to another queue, see movePart.
type external struct {
	// charges are those of all parts, of cluster queues above before those below. The charge of an
	// empty part is empty.
	charges     []queueCharge
	memberships []membership // one for each cluster
	set         *partSet     // of the allocations with equal labels whose parts have the same addresses
	// growth is, of a resize that is being decided, what it asks of each limit of the set; nil: an
	// allocation asks for the sum of its parts that count there.
	growth []resource.Vector
	// granted is, for each part in Entitled.External, the use of its applications that the last
	// report's figures certainly include.
	granted []resource.Vector
	// changed is when it was last granted more, or named more applications, since the load. The
	// cluster has as long after this as after the confirmation to see it.
	changed Instant
	// seen has a bit for each application that a cluster has known since the load, by its place in
	// ApplicationIDs.
	seen uint64
}

// membership is the place of an allocation in a cluster.
type membership struct {
	cluster *cluster
	index   int  // in the cluster's members
	ended   bool // by the last report all its applications have ended
}

// attachExternal adds the parts of an entry to the tables of their clusters. The entry does not
// count in the cluster queues yet. New cluster queues count on the host whose agent's report has
// them; nil: a request has them.
func (l *Ledger) attachExternal(e *entry, creator *host) {
	parts := e.Entitled.External
	if len(parts) == 0 {
		return
	}
	x := &external{granted: make([]resource.Vector, len(parts))}
	for i := range parts {
		c := l.cluster(ClusterName{parts[i].Kind, parts[i].Cluster})
		if !slices.ContainsFunc(x.memberships, func(s membership) bool { return s.cluster == c }) {
			x.memberships = append(x.memberships, membership{cluster: c})
			c.attached++
		}
	}
	x.charges = l.chargesOf(e, creator, func(*cluster) bool { return true })
	e.external = x
	l.joinPartSet(e)
}

// chargesOf makes the charges of an entry in some clusters. They count as attached. creator is as
// for attachExternal.
func (l *Ledger) chargesOf(e *entry, creator *host, in func(*cluster) bool) (list []queueCharge) {
	parts := e.Entitled.External
	all := l.scratchCharges[:0]
	for i := range parts {
		c := l.cluster(ClusterName{parts[i].Kind, parts[i].Cluster})
		if !in(c) {
			continue
		}
		own := c.queue(queueKey{parts[i].Path, parts[i].Partition}, creator)
		if user := c.userOf(&e.Allocation); user != "" {
			all = append(all, queueCharge{queue: own.userPart(user), own: true})
		}
		for q := own; q != nil; q = q.parent {
			all = append(all, queueCharge{queue: q, own: q == own})
		}
	}
	list = slices.Clip(slices.Clone(mergeCharges(sortedCharges(all))))
	clear(all)
	l.scratchCharges = all[:0]
	for i := range list {
		t := &list[i]
		t.queue.attached++
		t.vector = t.queue.sum(parts, func(part int) resource.Vector { return parts[part].Vector })
	}
	return list
}

// sortedCharges sorts charges: of cluster queues above before those below, and before those of
// users of the same queue.
func sortedCharges(list []queueCharge) []queueCharge {
	slices.SortStableFunc(list, func(a, b queueCharge) int {
		return cmp.Or(a.queue.address.Compare(b.queue.address), cmp.Compare(a.queue.userName(), b.queue.userName()))
	})
	return list
}

// mergeCharges merges the charges of the same cluster queue, which are next to each other.
func mergeCharges(list []queueCharge) []queueCharge {
	merged := list[:0]
	for _, t := range list {
		if n := len(merged); n > 0 && merged[n-1].queue == t.queue {
			merged[n-1].own = merged[n-1].own || t.own
		} else {
			merged = append(merged, t)
		}
	}
	return merged
}

// detachExternal takes an entry, which counts in no cluster queue any more, out of the tables of
// its clusters.
func (l *Ledger) detachExternal(e *entry) {
	x := e.external
	if x == nil {
		return
	}
	x.set.leave(e.accountSet)
	releaseCharges(x.charges)
	for i := range x.memberships {
		c := x.memberships[i].cluster
		c.attached--
		l.dropCluster(c)
	}
}

// releaseCharges detaches charges that count nowhere any more from their cluster queues.
func releaseCharges(list []queueCharge) {
	for i := range list {
		list[i].queue.attached--
	}
	for i := range list {
		q := list[i].queue
		if q.of != nil {
			q.of.queue.dropUser(q)
		} else {
			q.cluster.prune(q)
		}
	}
}

// contains reports whether a part with this address counts in the cluster queue.
func (q *clusterQueue) contains(at resource.Address) bool {
	if q.of != nil {
		return at == q.address
	}
	if q.address.Kind != at.Kind || q.address.Cluster != at.Cluster || q.address.Partition != at.Partition {
		return false
	}
	rest, inside := strings.CutPrefix(at.Path, q.address.Path)
	return inside && (rest == "" || rest[0] == '.')
}

// sum adds up a value of each part that counts in the cluster queue. A resource that Validate lets
// pass cannot overflow here.
func (q *clusterQueue) sum(parts []resource.External, of func(part int) resource.Vector) resource.Vector {
	total := resource.Vector{}
	for i := range parts {
		if !q.contains(parts[i].Address) {
			continue
		}
		sum, err := total.Add(of(i))
		if err != nil {
			panic("ledger: " + q.account.name.String() + ": " + err.Error())
		}
		total = sum
	}
	return total
}

// holdExternal counts the parts of an entry in their cluster queues.
func (e *entry) holdExternal() {
	x := e.external
	first := false
	for i := range x.charges {
		t := &x.charges[i]
		if t.queue.of == nil { // else its queue's charge is the one before, and counts already
			first = t.queue.firstIsFree()
		}
		e.countCharge(t)
		t.queue.account.exceeded = t.queue.account.exceeded || first && t.queue.account.overLimit()
	}
	for i := range x.memberships {
		s := &x.memberships[i]
		s.index = len(s.cluster.members)
		s.cluster.members = append(s.cluster.members, e)
	}
}

// countCharge counts a charge of an entry that holds something.
func (e *entry) countCharge(t *queueCharge) {
	t.queue.account.add(e.State, t.vector)
	t.queue.countHeld(t.vector, 1)
	t.queue.noteMasters(t.vector)
	t.countUse(e.share)
}

// countUse adds the charge of an allocation that holds resources to its share's use of the cluster
// queue.
func (t *queueCharge) countUse(s *share) {
	t.use = s.use(&t.queue.account)
	t.use.add(t.vector)
}

// countHeld counts, or with -1 discounts, an allocation that has the vector in the cluster queue.
func (q *clusterQueue) countHeld(v resource.Vector, by int) {
	if !v.IsZero() {
		q.account.held += by
		q.updateActive()
	}
}

// unholdExternal reverses holdExternal. The use that the clusters have seen counts as used by
// others from now on, until a report no longer shows it. Only the rest becomes free.
func (l *Ledger) unholdExternal(e *entry) {
	x := e.external
	for i := range x.charges {
		l.uncountCharge(e, &x.charges[i])
	}
	for i := range x.memberships {
		s := &x.memberships[i]
		s.cluster.reading.forget(e.ID)
		list := s.cluster.members
		last := list[len(list)-1]
		list[s.index] = last
		last.external.membership(s.cluster).index = s.index
		list[len(list)-1] = nil
		s.cluster.members = list[:len(list)-1]
	}
}

// uncountCharge reverses countCharge, as unholdExternal says.
func (l *Ledger) uncountCharge(e *entry, t *queueCharge) {
	for by := range t.queue.cluster.readings() {
		if e.setShown(t, by, resource.Vector{}) {
			t.queue.updateOthers()
		}
	}
	t.queue.account.subtract(e.State, t.vector)
	t.queue.countHeld(t.vector, -1)
	t.use.subtract(t.vector)
	e.share.dropUse(t.use)
	t.use = nil
	l.freed(&t.queue.account)
	if t.own && t.queue.of == nil && t.queue.firstIsFree() {
		l.freedForAll(t.queue)
	}
}

// membership returns the membership in a cluster.
func (x *external) membership(c *cluster) *membership {
	return &x.memberships[slices.IndexFunc(x.memberships, func(s membership) bool { return s.cluster == c })]
}

// entitleExternal applies another entitlement of an entry that holds something.
func (l *Ledger) entitleExternal(e *entry) {
	parts := e.Entitled.External
	for i := range e.external.charges {
		t := &e.external.charges[i]
		before := t.vector
		after := t.queue.sum(parts, func(part int) resource.Vector { return parts[part].Vector })
		if !after.NotMoreThan(before) {
			e.external.changed = l.now
		}
		t.queue.countHeld(before, -1)
		t.queue.countHeld(after, 1)
		t.vector = after
		t.use.subtract(before)
		t.use.add(after)
		for by := range t.queue.cluster.readings() {
			if e.updateShown(t, by) { // even if the sum is the same: its parts may have changed
				t.queue.updateOthers()
			}
		}
		t.queue.account.replace(e.State, e.State, before, after)
		t.queue.noteMasters(resource.Vector{})
		l.freed(&t.queue.account)
	}
}

// growthIn returns how much of a cluster queue's free resources an entry would take if its parts
// became next. Parts of the same cluster queue can trade: one part may take the amount that another
// gives up.
//
// There is one exception. The last report of the cluster may still show that the applications of a
// shrinking part hold more than the part's new size. That surplus no longer counts as the entry's.
// It counts as used by others until a later report does not show it, so it is added to the growth.
func (e *entry) growthIn(t *queueCharge, next []resource.External) resource.Vector {
	q, by := t.queue, t.queue.inForce()
	after := q.sum(next, func(part int) resource.Vector { return next[part].Vector })
	shown := q.sum(next, func(part int) resource.Vector { return lesser(next[part].Vector, e.grantedBy(q, by)[part]) })
	less := resource.Vector{}
	// after has all dimensions of before: a resize removes none
	for dimension, quantity := range after.All() {
		// the present use of others, if it is positive
		beyond := get(q.report.Used, dimension) - q.shownBy(by).Get(dimension)
		left := max(0, get(e.shownBy(t, by), dimension)-get(shown, dimension)) // the surplus
		if n := quantity - get(t.vector, dimension) + max(0, beyond+left) - max(0, beyond); n > 0 {
			less = less.With(dimension, n)
		}
	}
	return less
}

// updateShown computes the amount of an entry that a cluster queue's figures include by a reading:
// for each part the included use of its applications, but no more than the part.
func (e *entry) updateShown(t *queueCharge, by whichReading) (changed bool) {
	return e.setShown(t, by, e.shown(t, e.grantedBy(t.queue, by)))
}

// shown returns the amount of an entry that a cluster queue's figures include. granted has the
// included amount of each part.
func (e *entry) shown(t *queueCharge, granted []resource.Vector) resource.Vector {
	parts := e.Entitled.External
	return t.queue.sum(parts, func(part int) resource.Vector { return lesser(parts[part].Vector, granted[part]) })
}

// lesser is the smaller quantity of both in each dimension. A dimension that one of them does not
// set is zero.
func lesser(v, w resource.Vector) resource.Vector {
	least := resource.Vector{}
	for dimension, quantity := range v.All() {
		if q := min(quantity, get(w, dimension)); q > 0 {
			least = least.With(dimension, q)
		}
	}
	return least
}
