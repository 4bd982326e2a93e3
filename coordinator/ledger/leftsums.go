package ledger

import "github.com/bursar/bursar/resource"

// leftSums are sums that an allocation was taken out of before a leadership begins. They still list
// its dimensions, with zero if nothing else has them. A ledger that was loaded never knew it, so
// they are added up again: both are the same then, for readers as well.
type leftSums struct {
	sets     map[*accountSet]struct{}
	queues   map[*clusterQueue]struct{}
	accounts map[*account]struct{} // quotas of these sets
	uses     map[*shareUse]struct{}
}

func newLeftSums() leftSums {
	return leftSums{
		sets: make(map[*accountSet]struct{}), queues: make(map[*clusterQueue]struct{}),
		accounts: make(map[*account]struct{}), uses: make(map[*shareUse]struct{}),
	}
}

// add notes the sums that an entry counts in.
func (s *leftSums) add(e *entry) {
	s.sets[e.accountSet] = struct{}{}
	for _, t := range e.queueCharges() {
		s.queues[t.queue] = struct{}{}
	}
}

// begin empties all sums that are added up again, but those of hosts, which it adds up at once.
func (s *leftSums) begin(f *Filed) {
	for h := range f.touched {
		h.account.empty()
		for _, e := range h.entries {
			h.account.add(e.State, e.request())
		}
	}
	for set := range s.sets {
		set.used, set.reserved = resource.Sum{}, resource.Sum{}
		for i, quota := range set.accounts {
			quota.empty()
			s.accounts[quota] = struct{}{}
			s.emptyUse(set.uses[i])
		}
	}
	for q := range s.queues {
		q.account.empty()
		for _, share := range f.ledger.shares {
			if u := share.uses[&q.account]; u != nil {
				s.emptyUse(u)
			}
		}
	}
}

func (a *account) empty() { a.used, a.reserved = resource.Sum{}, resource.Sum{} }

func (s *leftSums) emptyUse(u *shareUse) {
	u.sum = resource.Sum{}
	s.uses[u] = struct{}{}
}

// count counts an entry in the sets and the cluster queues.
func (s *leftSums) count(e *entry) {
	if _, left := s.sets[e.accountSet]; left {
		e.addToSet(e.State, e.request())
	}
	for _, t := range e.queueCharges() {
		if _, left := s.queues[t.queue]; left {
			t.queue.account.add(e.State, t.vector)
			t.use.add(t.vector)
		}
	}
}

// end adds the sums of sets up in their quotas.
func (s *leftSums) end(l *Ledger) {
	for _, set := range l.accountSets {
		used, reserved := set.used.Vector(), set.reserved.Vector()
		for i, quota := range set.accounts {
			if _, left := s.accounts[quota]; left {
				quota.add(Active, used)
				quota.add(Reserved, reserved)
			}
			if _, left := s.uses[set.uses[i]]; left {
				set.uses[i].add(used)
				set.uses[i].add(reserved)
			}
		}
	}
}
