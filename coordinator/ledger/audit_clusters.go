package ledger

import (
	"github.com/bursar/bursar/resource"
)

// auditCharges checks which branches an entry counts in, and adds it to their sums.
func (l *Ledger) auditCharges(e *entry, sums map[*account]*balances, report func(int, string, ...any)) {
	want := make(map[resource.Address]resource.Vector)
	for _, part := range e.Entitled.External {
		at := part.Address
		for below := true; below; at.Path, below = parentPath(at.Path) {
			want[at], _ = want[at].Add(part.Vector)
		}
	}
	if len(want) != len(e.charges()) {
		report(3, "allocation %s touches %d branches, its parts %d", e.ID, len(e.charges()), len(want))
		return
	}
	for i := range e.charges() {
		t := &e.external.charges[i]
		at := t.branch.address
		asked, wanted := want[at]
		sum := sums[&t.branch.account]
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

// auditClusters checks the tables of the clusters, and what others use in their branches.
func (l *Ledger) auditClusters(sums map[*account]*balances, report func(int, string, ...any)) {
	brought := make(map[*host]int)
	for name, c := range l.clusters {
		if c.configured != (l.provider(name) != nil) || !c.configured && c.attached == 0 {
			report(3, "cluster %s: configured %t, %d allocations", name, c.configured, c.attached)
		}
		if c.order.Len() != len(c.branches) {
			report(3, "cluster %s: %d branches, %d in order", name, len(c.branches), c.order.Len())
		}
		c.order.Scan(func(b *branch) bool {
			l.auditBranch(b, sums[&b.account], report)
			if b.creator != nil {
				brought[b.creator]++
			}
			return true
		})
	}
	for _, h := range l.hostOrder {
		if h.createdBranches != brought[h] {
			report(2, "host %s: its agent has brought %d branches, of those that are there %d", h.ID, h.createdBranches, brought[h])
		}
	}
}

func (l *Ledger) auditBranch(b *branch, sum *balances, report func(int, string, ...any)) {
	if sum == nil || b.dropped {
		report(3, "%s: in order and in no table", b.account.name)
		return
	}
	if path, below := parentPath(b.address.Path); below && b.parent != b.cluster.branches[queueKey{path, b.address.Partition}] {
		report(3, "%s: is not below %s", b.account.name, path)
	}
	if b.creator != nil && b.known {
		report(3, "%s: is reported, and counts on host %s", b.account.name, b.creator.ID)
	}
	if b.attached != sum.attached || !b.known && b.attached == 0 && b.below == 0 {
		report(3, "%s: said to be touched by %d, is by %d, reported %t, %d below", b.account.name, b.attached, sum.attached, b.known, b.below)
	}
	if !sum.shown.EqualTo(b.shown.Vector()) {
		report(2, "%s: shows %s of our allocations, by these %s", b.account.name, b.shown.Vector(), sum.shown)
	}
	for dimension, used := range b.report.Used.All() {
		if others := max(0, used-get(sum.shown, dimension)); others != get(b.account.others, dimension) {
			report(2, "%s: others use %s, by the report %s less %s", b.account.name, b.account.others, b.report.Used, sum.shown)
		}
	}
}
