package ledger

import (
	"github.com/bursar/bursar/resource"
)

// auditCharges checks which cluster queues an entry counts in, and adds it to their sums.
func (l *Ledger) auditCharges(e *entry, sums map[*account]*balances, report func(int, string, ...any)) {
	want := make(map[resource.Address]resource.Vector)
	for _, part := range e.Entitled.External {
		at := part.Address
		for below := true; below; at.Path, below = parentPath(at.Path) {
			want[at], _ = want[at].Add(part.Vector)
		}
	}
	if len(want) != len(e.queueCharges()) {
		report(3, "allocation %s touches %d cluster queues, its parts %d", e.ID, len(e.queueCharges()), len(want))
		return
	}
	for i := range e.queueCharges() {
		t := &e.external.charges[i]
		at := t.queue.address
		asked, wanted := want[at]
		sum := sums[&t.queue.account]
		switch {
		case !wanted || !asked.Equal(t.vector):
			report(3, "allocation %s has %s in %s, its parts there are %s", e.ID, t.vector, at, asked)
		case sum == nil:
			report(3, "allocation %s touches %s, which is in no table", e.ID, at)
		case !t.shown.NotMoreThan(t.vector), !e.State.Holds() && !t.shown.IsZero():
			report(2, "allocation %s is %s with %s in %s, and its cluster is said to show %s of it", e.ID, e.State, t.vector, at, t.shown)
		}
		if sum == nil {
			continue
		}
		sum.attached++
		sum.shown, _ = sum.shown.Add(t.shown)
		if e.State.Holds() {
			sum.count(e.State, t.vector)
			if !t.vector.IsZero() {
				sum.held++
			}
		}
	}
	for _, s := range e.external.memberships {
		if in := s.index < len(s.cluster.members) && s.cluster.members[s.index] == e; in != e.State.Holds() {
			report(3, "allocation %s is %s; that it holds something in %s is %t", e.ID, e.State, s.cluster, in)
		}
	}
}

// auditClusters checks the tables of the clusters, and what others use in their cluster queues.
func (l *Ledger) auditClusters(sums map[*account]*balances, report func(int, string, ...any)) {
	brought := make(map[*host]int)
	for name, c := range l.clusters {
		if c.configured != (l.provider(name) != nil) || !c.configured && c.attached == 0 {
			report(3, "cluster %s: configured %t, %d allocations", name, c.configured, c.attached)
		}
		if c.order.Len() != len(c.queues) {
			report(3, "cluster %s: %d cluster queues, %d in order", name, len(c.queues), c.order.Len())
		}
		c.order.Scan(func(q *clusterQueue) bool {
			l.auditClusterQueue(q, sums[&q.account], report)
			if q.creator != nil {
				brought[q.creator]++
			}
			return true
		})
	}
	for _, h := range l.hostOrder {
		if h.createdQueues != brought[h] {
			report(2, "host %s: its agent has brought %d cluster queues, of those that are there %d", h.ID, h.createdQueues, brought[h])
		}
	}
}

func (l *Ledger) auditClusterQueue(q *clusterQueue, sum *balances, report func(int, string, ...any)) {
	if sum == nil || q.dropped {
		report(3, "%s: in order and in no table", q.account.name)
		return
	}
	if path, below := parentPath(q.address.Path); below && q.parent != q.cluster.queues[queueKey{path, q.address.Partition}] {
		report(3, "%s: is not below %s", q.account.name, path)
	}
	if q.creator != nil && q.known {
		report(3, "%s: is reported, and counts on host %s", q.account.name, q.creator.ID)
	}
	if q.attached != sum.attached || !q.known && q.attached == 0 && q.below == 0 {
		report(3, "%s: said to be touched by %d, is by %d, reported %t, %d below", q.account.name, q.attached, sum.attached, q.known, q.below)
	}
	if !sum.shown.EqualTo(q.shown.Vector()) {
		report(2, "%s: shows %s of our allocations, by these %s", q.account.name, q.shown.Vector(), sum.shown)
	}
	for dimension, used := range q.report.Used.All() {
		if others := max(0, used-get(sum.shown, dimension)); others != get(q.account.others, dimension) {
			report(2, "%s: others use %s, by the report %s less %s", q.account.name, q.account.others, q.report.Used, sum.shown)
		}
	}
}
