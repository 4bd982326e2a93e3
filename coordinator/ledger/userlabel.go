package ledger

import "slices"

// # When another label names the user
//
// A setting of a cluster's provider selects the label that names the user there. With another
// setting the users are others, for waiting requests and for held allocations: in one step each
// allocation counts in the accounts of its user by the new label, as after a restart. The state of
// the cluster is unknown then, so nothing is granted there before it is read again.

// userOf returns the user of an allocation in the cluster; empty if the user is not known.
func (c *cluster) userOf(a *Allocation) string { return a.Labels.Value(c.terms.UserLabel) }

// setTerms stores the provider's settings for requests to a cluster. No report of the cluster is
// being taken in.
func (l *Ledger) setTerms(c *cluster, terms Terms) {
	before := c.terms.UserLabel
	c.terms = terms
	if terms.UserLabel == before || c.attached == 0 {
		return
	}
	var classes []*class
	var starved []*entry
	l.entries.Scan(func(_ ID, e *entry) bool {
		if !e.isIn(c) {
			return true
		}
		if k := e.waitsIn(); k != nil && k.group != nil {
			k.dequeue()
			classes = append(classes, k)
		}
		if e.isStarved() { // it may lack something else now
			l.endClaim(e)
			l.removeStarved(e)
			starved = append(starved, e)
		}
		l.chargeUser(c, e)
		return true
	})
	slices.SortFunc(classes, byUrgency)
	for _, k := range classes {
		l.requeue(k)
	}
	for _, e := range starved {
		l.setEntryTimer(e)
	}
}

// isIn reports whether an allocation has a part in a cluster.
func (e *entry) isIn(c *cluster) bool {
	return e.external != nil && slices.ContainsFunc(e.external.memberships, func(m membership) bool { return m.cluster == c })
}

// chargeUser lets an entry count in a cluster for the user that it has there now.
func (l *Ledger) chargeUser(c *cluster, e *entry) {
	x, parts := e.external, e.Entitled.External
	before, onHost := x.charges, e.hostBytes()
	var left, next []queueCharge
	for i := range before {
		t := &before[i]
		if t.queue.cluster != c || t.queue.of == nil {
			next = append(next, *t)
			continue
		}
		if e.State.Holds() {
			l.uncountCharge(e, t)
		}
		left = append(left, *t)
	}
	if user := c.userOf(&e.Allocation); user != "" {
		for i := range parts {
			if parts[i].Kind != c.Kind || parts[i].Cluster != c.Cluster {
				continue
			}
			t := queueCharge{queue: c.queues[queueKey{parts[i].Path, parts[i].Partition}].userPart(user), own: true, vector: parts[i].Vector}
			t.queue.attached++
			if e.State.Holds() {
				e.countCharge(&t)
			}
			next = append(next, t)
		}
	}
	x.charges = sortedCharges(slices.Clip(next))
	x.moveShown(e.ID, parts, parts, before)
	x.eachCharge(c, func(_ int, t *queueCharge) {
		if t.queue.of != nil && e.State.Holds() && e.updateShown(t, lastReading) {
			t.queue.updateOthers()
		}
	})
	releaseCharges(left)
	l.noteForAudit(e)
	if e.host != nil {
		l.countHostBytes(e, e.host, e.hostBytes()-onHost)
	}
}
