package ledger

import (
	"slices"

	"github.com/bursar/bursar/resource"
)

// whichReading says by which report of a cluster something is. If no report is being taken in,
// both say the same.
type whichReading int

const (
	lastReading whichReading = iota // the one that was taken in last
	nextReading                     // the one that is being taken in
	readings
)

// readings is how many there are: two while a report is being taken in.
func (c *cluster) readings() whichReading {
	if c.reading == nil {
		return nextReading
	}
	return readings
}

// nextShown is the amount of an allocation in the figures of a report that is being taken in, if it
// differs from the last report.
type nextShown struct {
	granted []resource.Vector // of each of its parts, see external
	shown   []resource.Vector // in each queue that it counts in, see queueCharge
}

// of returns the report's figures for an allocation; nil: they are those of the last report, or no
// report is being taken in.
func (r *reading) of(id ID) *nextShown {
	if r == nil {
		return nil
	}
	return r.next[id]
}

// inForce is the reading whose figures the account of the queue has.
func (q *clusterQueue) inForce() whichReading {
	if r := q.cluster.reading; r != nil && q.taken == r.number {
		return nextReading
	}
	return lastReading
}

// shownBy is the part of our allocations in the queue that the figures of a reading include.
func (q *clusterQueue) shownBy(by whichReading) *resource.Sum {
	if r := q.cluster.reading; r != nil && by == nextReading && r.sums[q] != nil {
		return r.sums[q]
	}
	return &q.shown
}

// grantedBy returns the amount of each part in the figures of a reading of the queue's cluster.
func (e *entry) grantedBy(q *clusterQueue, by whichReading) []resource.Vector {
	if n := q.cluster.reading.of(e.ID); n != nil && by == nextReading {
		return n.granted
	}
	return e.external.granted
}

// shownBy is the part of a charge that the figures of a reading include.
func (e *entry) shownBy(t *queueCharge, by whichReading) resource.Vector {
	if n := t.queue.cluster.reading.of(e.ID); n != nil && by == nextReading {
		return n.shown[e.external.index(t)]
	}
	return t.shown
}

func (x *external) index(t *queueCharge) int {
	return slices.IndexFunc(x.charges, func(other queueCharge) bool { return other.queue == t.queue })
}

// setShown changes how much of an allocation the figures of a reading include. Call updateOthers
// afterwards: the use that an allocation leaves behind counts as used by others until a report says
// otherwise.
func (e *entry) setShown(t *queueCharge, by whichReading, v resource.Vector) (changed bool) {
	r := t.queue.cluster.reading
	n := r.of(e.ID)
	before := e.shownBy(t, by)
	switch {
	case by == nextReading && n == nil: // it is what the last one includes
		return false
	case before.EqualTo(v):
		return false
	case by == nextReading:
		t.queue.replaceShown(r.sum(t.queue), before, v)
		n.shown[e.external.index(t)] = v
		return true
	}
	switch {
	case n != nil:
		r.sum(t.queue) // which begins with what the last one includes
	case r != nil && r.sums[t.queue] != nil:
		t.queue.replaceShown(r.sums[t.queue], before, v)
	}
	t.queue.replaceShown(&t.queue.shown, before, v)
	t.shown = v
	return true
}

// sum returns the sum of the report's figures for our allocations in the queue. It is kept once the
// figures for an allocation differ from the last report's.
func (r *reading) sum(q *clusterQueue) *resource.Sum {
	s := r.sums[q]
	if s == nil {
		s = new(resource.Sum)
		q.replaceShown(s, resource.Vector{}, q.shown.Vector())
		r.sums[q] = s
	}
	return s
}

func (q *clusterQueue) replaceShown(s *resource.Sum, before, after resource.Vector) {
	err := s.Minus(before)
	if err == nil {
		err = s.Add(after)
	}
	if err != nil {
		panic("ledger: " + q.account.name.String() + ": shown: " + err.Error())
	}
}

// countShown computes the report's figures for an allocation, and whether its applications have
// ended. In most cases nothing has changed since the last report.
func (r *reading) countShown(e *entry) (changed bool) {
	if e.State != Active {
		return false
	}
	x := e.external
	n := r.next[e.ID]
	settled := r.Untrusted == "" && r.Asked >= max(e.Confirmed, x.changed).Add(r.Settle)
	for i := range e.Entitled.External {
		part := &e.Entitled.External[i]
		granted := x.granted[i] // what was seen of it before it grew is still seen
		switch {
		case part.Kind != r.Kind || part.Cluster != r.Cluster:
			continue
		case len(e.ApplicationIDs) > 0:
			granted = r.certain(e, i)
		case settled:
			granted = part.Vector
		case r.Untrusted != "":
			granted = resource.Vector{}
		}
		if n == nil && granted.EqualTo(x.granted[i]) {
			continue
		}
		if n == nil {
			n = x.nextShown()
			r.next[e.ID] = n
		}
		n.granted[i], changed = granted, true
	}
	if changed {
		x.eachCharge(r.cluster, func(i int, t *queueCharge) {
			if shown := e.shown(t, n.granted); !shown.EqualTo(n.shown[i]) {
				t.queue.replaceShown(r.sum(t.queue), n.shown[i], shown)
				n.shown[i] = shown
			}
		})
	}
	x.membership(r.cluster).ended = r.endsWith(e)
	if x.ended() {
		r.over.Insert(e.ID)
	}
	return changed
}

// nextShown returns a copy of the last report's figures.
func (x *external) nextShown() *nextShown {
	n := &nextShown{granted: slices.Clone(x.granted), shown: make([]resource.Vector, len(x.charges))}
	for i := range x.charges {
		n.shown[i] = x.charges[i].shown
	}
	return n
}

// mergeShown replaces the last report's figures for an allocation by this report's.
func (r *reading) mergeShown(e *entry) (changed bool) {
	n := r.next[e.ID]
	if n == nil {
		return false
	}
	x := e.external
	for i := range e.Entitled.External {
		if part := &e.Entitled.External[i]; part.Kind == r.Kind && part.Cluster == r.Cluster {
			x.granted[i] = n.granted[i]
		}
	}
	x.eachCharge(r.cluster, func(i int, t *queueCharge) {
		if !t.shown.EqualTo(n.shown[i]) {
			t.queue.replaceShown(&t.queue.shown, t.shown, n.shown[i])
			t.shown = n.shown[i]
		}
	})
	delete(r.next, e.ID)
	return true
}

// eachCharge visits the charges in one cluster.
func (x *external) eachCharge(c *cluster, visit func(i int, t *queueCharge)) {
	for i := range x.charges {
		if t := &x.charges[i]; t.queue.cluster == c {
			visit(i, t)
		}
	}
}

// forget drops an allocation that holds nothing any more.
func (r *reading) forget(id ID) {
	if r != nil {
		delete(r.next, id)
		r.over.Delete(id)
	}
}
