package ledger

import (
	"github.com/bursar/bursar/resource"
)

// countedCharge is a queueCharge as it was counted.
type countedCharge struct {
	queue  *clusterQueue
	vector resource.Vector
	shown  [readings]resource.Vector
}

// countCharges checks which cluster queues an entry counts in.
func (a *auditor) countCharges(e *entry, c *counted) {
	want := make(map[resource.Address]resource.Vector)
	users := a.checkUserCharges(e)
	for _, part := range e.Entitled.External {
		at := part.Address
		for below := true; below; at.Path, below = parentPath(at.Path) {
			want[at], _ = want[at].Add(part.Vector)
		}
	}
	if len(want)+users != len(e.queueCharges()) {
		a.reportf(3, "allocation %s touches %d cluster queues, its parts %d", e.ID, len(e.queueCharges())-users, len(want))
		return
	}
	for i := range e.queueCharges() {
		t := &e.external.charges[i]
		at := t.queue.address
		asked, wanted := want[at]
		known := a.isInTable(t.queue)
		switch {
		case t.queue.of == nil && (!wanted || !asked.Equal(t.vector)):
			a.reportf(3, "allocation %s has %s in %s, its parts there are %s", e.ID, t.vector, at, asked)
		case !known:
			a.reportf(3, "allocation %s touches %s, which is in no table", e.ID, at)
		default:
			for by := range t.queue.cluster.readings() {
				if shown := e.shownBy(t, by); !shown.NotMoreThan(t.vector) || !e.State.Holds() && !shown.IsZero() {
					a.reportf(2, "allocation %s is %s with %s in %s, and its cluster is said to show %s of it", e.ID, e.State, t.vector, at, shown)
				}
			}
		}
		if known {
			c.charges = append(c.charges, countedCharge{t.queue, t.vector, [readings]resource.Vector{t.shown, e.shownBy(t, nextReading)}})
		}
	}
	for _, s := range e.external.memberships {
		if in := s.index < len(s.cluster.members) && s.cluster.members[s.index] == e; in != e.State.Holds() {
			a.reportf(3, "allocation %s is %s; that it holds something in %s is %t", e.ID, e.State, s.cluster, in)
		}
	}
}

// checkUserCharges checks the charges of users' parts of cluster queues, and counts them. There is
// one for each part of which the user is known.
func (a *auditor) checkUserCharges(e *entry) (users int) {
	want := 0
	for _, part := range e.Entitled.External {
		if c := a.clusters[ClusterName{part.Kind, part.Cluster}]; c != nil && c.userOf(&e.Allocation) != "" {
			want++
		}
	}
	for _, t := range e.queueCharges() {
		if t.queue.of == nil {
			continue
		}
		users++
		if part, there := e.Entitled.Part(t.queue.address); !there || !part.Equal(t.vector) {
			a.reportf(3, "allocation %s has %s in %s, its part there is %s", e.ID, t.vector, t.queue.account.name, part)
		}
		if user := t.queue.cluster.userOf(&e.Allocation); user != t.queue.of.user {
			a.reportf(3, "allocation %s counts in %s, and its user there is %q", e.ID, t.queue.account.name, user)
		}
	}
	if users != want {
		a.reportf(3, "allocation %s touches %d users' parts of cluster queues, its parts %d", e.ID, users, want)
	}
	return users
}

func (a *auditor) isInTable(q *clusterQueue) bool {
	if of := q.of; of != nil {
		i, found := of.queue.findUser(of.user)
		return found && of.queue.users[i] == q && a.isInTable(of.queue)
	}
	return a.clusters[q.cluster.ClusterName] == q.cluster && q.cluster.queues[queueKey{q.address.Path, q.address.Partition}] == q
}

// addCharges adds an allocation's charges to the sums of cluster queues, or subtracts them.
func (a *auditor) addCharges(c *counted, by int) {
	for i := range c.charges {
		t := &c.charges[i]
		sum := a.sumOf(&t.queue.account)
		sum.attached += by
		for reading, shown := range t.shown {
			addOrSubtract(&sum.shown[reading], shown, by)
		}
		if c.state.Holds() {
			sum.count(c.state, t.vector, by)
			if !t.vector.IsZero() {
				sum.held += by
			}
		}
	}
}

// compareCluster checks the tables of a cluster, and what others use in its queues. What the
// cluster shows of an allocation changes with each report, without a new form of the allocation:
// noteForAudit tells of that.
func (a *auditor) compareCluster(name ClusterName, c *cluster) bool {
	if c.configured != (a.provider(name) != nil) || !c.configured && c.attached == 0 {
		a.reportf(3, "cluster %s: configured %t, %d allocations", name, c.configured, c.attached)
	}
	if c.order.Len() != len(c.queues) {
		a.reportf(3, "cluster %s: %d cluster queues, %d in order", name, len(c.queues), c.order.Len())
	}
	after := resource.Address{Kind: c.Kind, Cluster: c.Cluster}
	for a.step() {
		next := c.queuesAfter(after, 1, nil)
		if a.clusters[name] != c || len(next) == 0 { // it has gone in the meantime, or this was the last one
			return true
		}
		after = next[0].address
		a.compareClusterQueue(next[0])
		if !a.compareUsers(next[0]) {
			return false
		}
	}
	return false
}

// compareUsers compares the users' parts of a cluster queue.
func (a *auditor) compareUsers(q *clusterQueue) bool {
	for name := ""; len(q.usersAfter(name)) > 0; {
		if !a.step() {
			return false
		}
		rest := q.usersAfter(name)
		if len(rest) == 0 { // they have gone in the meantime
			break
		}
		u := rest[0]
		name = u.of.user
		if same := u.taken == q.taken && u.known == q.known; u.of.queue != q || !same && !q.cluster.reading.awaits(u) || u.attached == 0 {
			a.reportf(3, "%s: it is of report %d, its queue of %d; touched by %d", u.account.name, u.taken, q.taken, u.attached)
		}
		a.compare(&u.account)
		a.compareFigures(u)
	}
	return true
}

// compareCreators compares how many cluster queues each host is said to have brought with those
// that are there.
func (a *auditor) compareCreators() {
	brought := make(map[*host]int)
	for _, c := range a.clusters {
		c.order.Scan(func(q *clusterQueue) bool {
			if q.creator != nil {
				brought[q.creator]++
			}
			return true
		})
	}
	for _, h := range a.hostOrder {
		if h.createdQueues != brought[h] {
			a.reportf(2, "host %s: its agent has brought %d cluster queues, of those that are there %d", h.ID, h.createdQueues, brought[h])
		}
	}
}

func (a *auditor) compareClusterQueue(q *clusterQueue) {
	if !a.isInTable(q) || q.dropped {
		a.reportf(3, "%s: in order and in no table", q.account.name)
		return
	}
	a.compare(&q.account)
	if path, below := parentPath(q.address.Path); below && q.parent != q.cluster.queues[queueKey{path, q.address.Partition}] {
		a.reportf(3, "%s: is not below %s", q.account.name, path)
	}
	if q.creator != nil && q.known {
		a.reportf(3, "%s: is reported, and counts on host %s", q.account.name, q.creator.ID)
	}
	a.compareFigures(q)
}

// compareFigures compares the allocations that charge a cluster queue, or a user's part of one, and
// the cluster's figures for them.
func (a *auditor) compareFigures(q *clusterQueue) {
	sum := a.sumOf(&q.account)
	if int(q.attached) != sum.attached || !q.known && q.attached == 0 && q.below == 0 {
		a.reportf(3, "%s: said to be touched by %d, is by %d, reported %t, %d below", q.account.name, q.attached, sum.attached, q.known, q.below)
	}
	for by := range q.cluster.readings() {
		if shown := sum.shown[by].Vector(); !shown.EqualTo(q.shownBy(by).Vector()) {
			a.reportf(2, "%s: shows %s of our allocations, by these %s", q.account.name, q.shownBy(by).Vector(), shown)
		}
	}
	shown := sum.shown[q.inForce()].Vector()
	for dimension, used := range q.report.Used.All() {
		if others := max(0, used-get(shown, dimension)); others != get(q.account.others, dimension) {
			a.reportf(2, "%s: others use %s, by the report %s less %s", q.account.name, q.account.others, q.report.Used, shown)
		}
	}
}
