package sim

import (
	"slices"
	"strings"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/resource"
)

// amountsOf are what the parts of an allocation are entitled to, in their order.
func amountsOf(a *ledger.Allocation) (list []amount) {
	for _, x := range a.Entitled.External {
		list = append(list, amountOf(x.Vector))
	}
	return list
}

// clusterName is that of a part.
func clusterName(x *resource.External) ledger.ClusterName {
	return ledger.ClusterName{Kind: x.Kind, Cluster: x.Cluster}
}

func queueKeyOf(x *resource.External) queueKey { return queueKey{x.Path, x.Partition} }

// tenants are the live allocations that hold something in queues.
func tenants(l *ledger.Ledger) (list []ledger.Allocation) {
	l.Allocations(0, func(a *ledger.Allocation) bool {
		if a.State.Holds() && len(a.Entitled.External) > 0 {
			list = append(list, *a)
		}
		return true
	})
	return list
}

// checkQueueGrants holds, for everything that was granted in queues since it last ran, that the
// queues had room: for grants, and for what a resize has added. What an agent brings back was
// granted before.
func (r *callerRecord) checkQueueGrants(c *coord) {
	if len(r.w.clusters) == 0 {
		return
	}
	l := c.core.Ledger()
	live := tenants(l)
	parts := make(map[ledger.ID][]resource.External, len(live))
	for i := range live {
		a := &live[i]
		parts[a.ID] = a.Entitled.External
		had, known := c.parts[a.ID]
		fresh := a.State == ledger.Reserved && a.GrantRevision > c.granted
		if !fresh && !known {
			continue
		}
		before := r.w.amountsBefore(a, had)
		grown := make([]amount, len(before))
		for j, now := range amountsOf(a) {
			for k := range now {
				if fresh || now[k] > before[j][k] {
					grown[j][k] = now[k]
				}
			}
		}
		if fresh {
			before = make([]amount, len(before))
		}
		r.checkParts(c, a, before, grown, live)
	}
	c.parts = parts
}

// amountsBefore are what the parts of an allocation were entitled to before. A part that is in
// another queue now has followed its application: that is no grant.
func (w *World) amountsBefore(a *ledger.Allocation, had []resource.External) []amount {
	before := amountsOf(a)
	for i := range a.Entitled.External {
		at := slices.IndexFunc(had, func(x resource.External) bool { return x.Address == a.Entitled.External[i].Address })
		if at >= 0 {
			before[i] = amountOf(had[at].Vector)
		} else if had != nil {
			w.tally.Followed++
		}
	}
	return before
}

// checkParts looks at every queue that a grant touches, and at those above.
func (r *callerRecord) checkParts(c *coord, a *ledger.Allocation, before, grown []amount, live []ledger.Allocation) {
	seen := make(map[ledger.ClusterName]map[queueKey]bool)
	for i := range a.Entitled.External {
		x := &a.Entitled.External[i]
		if grown[i] == (amount{}) {
			continue
		}
		name := clusterName(x)
		if seen[name] == nil {
			seen[name] = make(map[queueKey]bool)
		}
		if !r.checkKnown(c, a, x) {
			return
		}
		r.w.tally.QueueGrants++
		for path := x.Path; path != ""; path = parent(path) {
			at := queueKey{path, x.Partition}
			if !seen[name][at] {
				seen[name][at] = true
				// One part has given up there what another took.
				if !grewIn(a, before, name, at) {
					continue
				}
				r.checkQueue(c, a, name, at, grown, live)
			}
		}
	}
}

// grewIn reports whether an allocation has more in a queue than before, in any dimension.
func grewIn(a *ledger.Allocation, before []amount, name ledger.ClusterName, at queueKey) bool {
	var more amount
	for i := range a.Entitled.External {
		x := &a.Entitled.External[i]
		if clusterName(x) != name || x.Partition != at.partition || x.Path != at.path && !strings.HasPrefix(x.Path, at.path+".") {
			continue
		}
		for k, now := range amountOf(x.Vector) {
			more[k] += now - before[i][k]
		}
	}
	return more[0] > 0 || more[1] > 0 || more[2] > 0
}

// checkKnown holds that the cluster of a grant was known: it was read, and the report is reliable,
// not too old, and not forgotten since; and that it has the queue, or makes it.
func (r *callerRecord) checkKnown(c *coord, a *ledger.Allocation, x *resource.External) bool {
	s := c.standing[clusterName(x)]
	switch now := c.ledgerTime(); {
	case s == nil:
		r.w.failf(1, "%s was granted in %s, of which nothing is known", a.ID, x.Address)
	case s.report.Untrusted != "":
		r.w.failf(1, "%s was granted in %s: %s", a.ID, x.Address, s.report.Untrusted)
	case now >= s.report.Asked.Add(s.report.GoodFor):
		r.w.failf(1, "%s was granted in %s, which was read %s ago", a.ID, x.Address, now.Sub(s.report.Asked))
	case s.queues[queueKeyOf(x)] == nil && !s.makes(queueKeyOf(x)):
		r.w.failf(1, "%s was granted in %s, which is not there", a.ID, x.Address)
	default:
		return true
	}
	return false
}

// makes reports whether the cluster makes a missing queue when it is used.
func (s *snapshot) makes(at queueKey) bool {
	for path := parent(at.path); path != ""; path = parent(path) {
		if q := s.queues[queueKey{path, at.partition}]; q != nil {
			return q.CreatesChildren
		}
	}
	return false
}

// checkQueue holds invariant 1 for a queue, in the dimensions of the grant: right after the grant,
// the sum of all live entitlements there, and of what others truly used there at the moment of the
// ledger's snapshot, is within the limit of that snapshot. Nobody is to blame for what others take
// after the snapshot.
//
// Others are everybody but live allocations. Of what the applications of a live allocation held,
// as much as its part is entitled to was its own; what they held beyond that, or in another queue
// or partition, belonged to others. If an engine had named no application when the cluster was
// read, and the settle time was over, all of its part counts as held.
func (r *callerRecord) checkQueue(c *coord, a *ledger.Allocation, name ledger.ClusterName, at queueKey, grown []amount, live []ledger.Allocation) {
	s := c.standing[name]
	q := s.queues[at]
	if q == nil {
		return // it is to be made, and has no limit yet
	}
	if q.Closed {
		r.w.failf(1, "%s was granted in %s %s, which is closed", a.ID, name, at)
		return
	}
	if r.w.holdsBack(q) && slices.ContainsFunc(a.Entitled.External, func(x resource.External) bool { return clusterName(&x) == name && queueKeyOf(&x) == at }) {
		r.w.failf(1, "%s was granted in %s %s, which holds applications back", a.ID, name, at)
		return
	}
	var asked amount
	for i := range a.Entitled.External {
		if x := &a.Entitled.External[i]; clusterName(x) == name && queueKeyOf(x).within(at) {
			asked = asked.plus(grown[i])
		}
	}
	ours, others := s.shares(name, at, live)
	for i, dimension := range dimensions {
		limit, limited := q.Limit.Get(dimension)
		if asked[i] == 0 || !limited && dimension != gpu {
			continue
		}
		if ours[i]+others[i] > limit {
			r.w.failf(1, "the grant of %s put queue %s %s over its limit: %s of allocations %d, of others %d, limit %d",
				a.ID, name, at, dimension, ours[i], others[i], limit)
		}
	}
}

// shares are what live allocations are entitled to at a place, and what others truly held there at
// the moment of the snapshot.
func (s *standing) shares(name ledger.ClusterName, at queueKey, live []ledger.Allocation) (ours, others amount) {
	for _, h := range s.held {
		if h.at.within(at) {
			others = others.plus(h.amount)
		}
	}
	for i := range live {
		a := &live[i]
		for j := range a.Entitled.External {
			x := &a.Entitled.External[j]
			if clusterName(x) != name || !queueKeyOf(x).within(at) {
				continue
			}
			part := amountOf(x.Vector)
			ours = ours.plus(part)
			own := part.atMost(s.heldFor(a.ID.String(), queueKeyOf(x)))
			if settled := s.settled[a.ID]; settled != nil {
				for k := range own {
					own[k] = max(own[k], min(part[k], settled[j][k]))
				}
			}
			others = others.plus(own.times(-1))
		}
	}
	for i := range others {
		others[i] = max(0, others[i])
	}
	return ours, others
}

// checkOthers holds, when a report was taken in, that the ledger never says that others use less
// of a queue than they truly do: it takes nothing for our own that the report's figures do not
// have. checkQueue says what belongs to whom.
func (c *coord) checkOthers(l *ledger.Ledger, name ledger.ClusterName) {
	s := c.standing[name]
	if s == nil || s.report.Untrusted != "" {
		return
	}
	live := tenants(l)
	l.Queues(resource.Address{}, func(q ledger.QueueInfo) bool {
		at := queueKey{q.Address.Path, q.Address.Partition}
		if q.Address.Kind != name.Kind || q.Address.Cluster != name.Cluster || !q.Known || s.queues[at] == nil {
			return true
		}
		counted := amountOf(q.Account.Others)
		_, others := s.shares(name, at, live)
		for i, dimension := range dimensions {
			if counted[i] < others[i] {
				c.w.failf(1, "queue %s: others are said to use %d of %s, and truly used %d", q.Address, counted[i], dimension, others[i])
			}
		}
		return true
	})
}

// heldFor is what the applications that were started under an allocation held in a queue.
func (s *snapshot) heldFor(allocation string, at queueKey) (sum amount) {
	for _, h := range s.held {
		if h.allocation == allocation && h.at == at {
			sum = sum.plus(h.amount)
		}
	}
	return sum
}
