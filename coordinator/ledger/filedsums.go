package ledger

// A sum that an allocation was taken out of still lists the allocation's dimensions, with zero if
// nothing else has them. A ledger that was loaded never knew it. So what was filed is added up
// again before it leads: both are the same then, for readers as well.

// sum adds everything up again.
func (f *Filed) sum() {
	l := f.ledger
	f.emptySums()
	l.entries.Scan(func(_ ID, e *entry) bool {
		for _, t := range e.queueCharges() {
			if t.queue.creator == nil && t.queue.of == nil { // the first entry that has a part there
				t.queue.setCreator(e.host)
			}
		}
		l.sum(e)
		return true
	})
	l.sumSets()
}

// emptySums empties the sums of everything but shares, whose dimensions nobody sees.
func (f *Filed) emptySums() {
	l := f.ledger
	for _, h := range l.hostOrder {
		h.account.empty()
	}
	for _, set := range l.accountSets {
		set.empty()
		for _, parts := range set.partSets {
			for i := range parts.parts {
				parts.parts[i].empty()
			}
		}
	}
	for _, scope := range l.rules.scopes {
		scope.order.Scan(func(_ string, quota *account) bool {
			quota.empty() // also if no allocation counts in it any more
			return true
		})
	}
	for _, share := range l.shares {
		for _, use := range share.uses {
			use.empty()
		}
	}
	for _, c := range l.clusters {
		c.order.Scan(func(q *clusterQueue) bool {
			q.account.empty()
			for _, u := range q.users {
				u.account.empty()
			}
			q.clearCreator()
			return true
		})
	}
}

// sum adds an entry to the sums of its host, its account set and its cluster queues.
func (l *Ledger) sum(e *entry) {
	e.host.account.add(e.State, e.request())
	e.addToSet(e.State, e.request())
	if e.external != nil {
		e.external.set.add(e.State, e.Entitled.External)
	}
	for _, t := range e.queueCharges() {
		t.queue.account.add(e.State, t.vector)
		t.use.add(t.vector)
	}
}

// sumSets adds the sums of account sets to their quotas, and those of part sets to their limits.
func (l *Ledger) sumSets() {
	for _, set := range l.accountSets {
		set.addToAccounts()
		for _, parts := range set.partSets {
			parts.addToLimits()
		}
	}
}
