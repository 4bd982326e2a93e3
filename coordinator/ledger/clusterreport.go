package ledger

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/bursar/bursar/resource"
)

// QueueReport is what a cluster says of one queue in one partition.
type QueueReport struct {
	// Path is the full path, its elements separated by dots; Parent that of the queue above, empty
	// for the root. Partition is the node label, empty for the default one.
	Path, Parent, Partition string
	// Limit is the most it may have. Memory, cpu and instances that are not listed are not
	// limited. Custom countables that are not listed do not exist. Used is what all its
	// applications hold, Guaranteed what the cluster promises it.
	Limit, Used, Guaranteed resource.Vector
	// State is its state as the cluster names it; Closed says that it takes no new applications.
	State  string
	Closed bool
	// CreatesChildren says that the cluster creates a queue below it when it is used.
	CreatesChildren bool
	// DefaultPartition is the partition of applications that name none.
	DefaultPartition string
	// These are only shown. In percent of the cluster; nil: not reported.
	AbsoluteCapacity, AbsoluteMaxCapacity          *float64
	Applications, Pending, Active, MaxApplications *int32
}

// ApplicationReport is what a cluster says of one of our applications.
type ApplicationReport struct {
	ID string
	// Known is false if the cluster has no such application. Ended says that it has ended.
	Known, Ended bool
	// Queue is where it runs: a full path or, if the cluster says no more, a leaf.
	Queue string
	// Allocated is what it holds, by partition. AnyPartition stands for the one that it runs in if
	// the cluster does not say which.
	Allocated map[string]resource.Vector
}

// AnyPartition is the partition of what an application holds if the cluster does not say which
// one.
const AnyPartition = "*"

// ClusterReport is what was read of a cluster: its queues at one moment, and then our
// applications, one by one.
type ClusterReport struct {
	ClusterName
	// Asked is when the cluster was asked, not when it answered. A report that was asked for
	// earlier than the last one, or before the settings changed, changes nothing. If it was asked
	// for before the last one was handed in, no application counts as seen.
	Asked Instant
	// GoodFor is how long it is valid, from Asked on. After that nothing is known of the cluster.
	GoodFor time.Duration
	// Settle is how long after its confirmation an engine without application ids counts as not
	// seen by the cluster.
	Settle time.Duration
	// Incarnation changes when the cluster was restarted or failed over.
	Incarnation string
	// Untrusted says why the figures cannot be relied on yet; empty if they can.
	Untrusted string
	Queues    []QueueReport
	// Applications are the answers about those that Ledger.Applications names, each asked for
	// after the queues. An application without an answer counts as not seen by the cluster.
	Applications []ApplicationReport
}

// ReportCluster applies what was read of a cluster, all or nothing.
//
// Errors: *NotFoundError (there is no provider for it any more), *FieldError (a queue without a
// path, or listed twice).
func (l *Ledger) ReportCluster(now Instant, r ClusterReport) error {
	l.begin(now)
	if l.provider(r.ClusterName) == nil {
		return &NotFoundError{What: "provider", ID: r.String()}
	}
	c := l.clusters[r.ClusterName]
	asked := min(r.Asked, l.now)
	if asked < c.asked || asked < c.since {
		return nil
	}
	changed, err := c.applyQueues(r.Queues)
	if err != nil {
		return err
	}
	if r.Incarnation != c.incarnation || r.Untrusted != "" || !c.known || asked < c.taken {
		c.answers = nil // they are from another time, or may be newer than these queues
	}
	c.reported, c.asked, c.taken, c.reportedQueues = true, asked, l.now, len(r.Queues)
	c.incarnation, c.untrusted, c.silence = r.Incarnation, r.Untrusted, ""
	until := asked.Add(r.GoodFor)
	c.known = r.Untrusted == "" && l.now < until
	l.timers.set(&c.timer, 0)
	if c.known {
		l.timers.set(&c.timer, until)
	}
	if changed {
		c.indexQueues()
	}
	over := c.applyAnswers(&r)
	c.order.Scan(func(q *clusterQueue) bool {
		q.applyReport()
		l.freed(&q.account)
		return true
	})
	for _, e := range over {
		l.end(e, Released, "its application ended")
	}
	l.grantWaiting()
	return nil
}

// applyQueues stores the queues of a report. It reports whether the set of queues, or the default
// partition of a queue, has changed. Their accounts are updated later. On an error nothing has
// changed.
func (c *cluster) applyQueues(queues []QueueReport) (changed bool, err error) {
	c.reports++
	list := make([]*clusterQueue, 0, len(queues))
	for i := range queues {
		reported := &queues[i]
		q := c.queue(queueKey{reported.Path, reported.Partition}, nil)
		list = append(list, q)
		switch {
		case reported.Path == "":
			err = &FieldError{fmt.Sprintf("queues[%d].path", i), "", "the full path of the queue"}
		case q.seen == c.reports:
			err = &FieldError{fmt.Sprintf("queues[%d].path", i), q.address.String(), "each queue once in each partition"}
		}
		q.seen = c.reports
	}
	if err != nil {
		for _, q := range list {
			c.prune(q)
		}
		return changed, err
	}
	for i, q := range list {
		changed = changed || !q.known || q.report.DefaultPartition != queues[i].DefaultPartition
		q.setReport(&queues[i])
	}
	// a copy: cluster queues that no allocation charges are removed meanwhile
	for _, q := range c.order.Items() {
		if q.known && q.seen != c.reports {
			changed = true
			q.forgetReport()
		}
	}
	return changed, nil
}

// applyAnswers stores what a report says of our applications, and returns the allocations that end
// with them, by id.
func (c *cluster) applyAnswers(r *ClusterReport) (over []*entry) {
	answers := make(map[string]*ApplicationReport, len(r.Applications))
	for i := range r.Applications {
		answers[r.Applications[i].ID] = &r.Applications[i]
	}
	if r.Untrusted != "" {
		clear(answers)
	}
	owners := c.owners()
	for _, e := range c.members {
		if e.State != Active {
			continue
		}
		x := e.external
		settled := r.Untrusted == "" && c.asked >= max(e.Confirmed, x.changed).Add(r.Settle)
		changed := false // in most cases nothing has changed since the last report
		for i := range e.Entitled.External {
			part := &e.Entitled.External[i]
			granted := x.granted[i] // what was seen of it before it grew is still seen
			switch {
			case part.Kind != c.Kind || part.Cluster != c.Cluster:
			case len(e.ApplicationIDs) > 0:
				granted = c.granted(e, i, answers, owners)
			case settled:
				granted = part.Vector
			case r.Untrusted != "":
				granted = resource.Vector{}
			}
			if !granted.EqualTo(x.granted[i]) {
				x.granted[i], changed = granted, true
			}
		}
		if changed {
			for i := range x.charges {
				e.updateShown(&x.charges[i])
			}
		}
		x.membership(c).ended = e.finished(answers, settled && c.asked >= c.since.Add(r.Settle))
		if !slices.ContainsFunc(x.memberships, func(s membership) bool { return !s.ended }) {
			over = append(over, e)
		}
	}
	c.answers = answers
	slices.SortFunc(over, func(a, b *entry) int { return cmp.Compare(a.ID, b.ID) })
	return over
}

// owners returns the allocation in which each application counts: the first one that names it. It
// must not count in two.
func (c *cluster) owners() map[string]ID {
	owners := make(map[string]ID, len(c.members))
	for _, e := range c.members {
		for _, id := range e.ApplicationIDs {
			owners[id] = min(e.ID, cmp.Or(owners[id], e.ID))
		}
	}
	return owners
}

// finished reports whether an allocation lives as long as its applications and all of them have
// ended by the answers. An application that the cluster does not know has ended, too, once the
// cluster had the time to see it, and an operator had the time to notice that it is the wrong
// cluster.
func (e *entry) finished(answers map[string]*ApplicationReport, settled bool) bool {
	if e.Process.PID != 0 || e.Lease != 0 || len(e.ApplicationIDs) == 0 {
		return false
	}
	for _, id := range e.ApplicationIDs {
		a := answers[id]
		if a == nil || a.Known && !a.Ended || !a.Known && !settled {
			return false
		}
	}
	return true
}

// granted is how much of a part the report's figures include for certain: for each application the
// smaller of what it held by the answers before and after the queues were read. If its use only
// rose or only fell in between, it held no less. It may have held less only if its use fell and
// rose again. So the earlier answers count only while their report is valid, and only if that was
// handed in before the cluster was asked for this one: else they, too, may be newer than the
// queues.
func (c *cluster) granted(e *entry, part int, answers map[string]*ApplicationReport, owners map[string]ID) resource.Vector {
	total := resource.Vector{}
	for i, id := range e.ApplicationIDs {
		if owners[id] != e.ID || slices.Contains(e.ApplicationIDs[:i], id) {
			continue
		}
		least := lesser(e.allocated(part, c.answers[id]), e.allocated(part, answers[id]))
		if sum, err := total.Add(least); err == nil {
			total = sum
		}
	}
	return total
}

// allocated is what an application holds of the entry's part, by an answer. What could belong to
// several parts counts in none.
func (e *entry) allocated(part int, a *ApplicationReport) resource.Vector {
	if a == nil || !a.Known || a.Ended {
		return resource.Vector{}
	}
	at := &e.Entitled.External[part].Address
	held, told := a.Allocated[at.Partition]
	if !told {
		held = a.Allocated[AnyPartition]
	}
	for i := range e.Entitled.External {
		other := &e.Entitled.External[i].Address
		candidate := other.Kind == at.Kind && other.Cluster == at.Cluster && a.runsIn(other.Path) && (!told || other.Partition == at.Partition)
		if candidate != (i == part) {
			return resource.Vector{}
		}
	}
	return clamped(held)
}

// runsIn reports whether the application is in the queue with this path, as far as the cluster
// says.
func (a *ApplicationReport) runsIn(path string) bool { return a.Queue == path || a.Queue == leaf(path) }

// Applications returns the ids of the applications of allocations that have a part in the cluster,
// sorted, each id once. These are the ones to ask the cluster for.
func (l *Ledger) Applications(name ClusterName) []string {
	c := l.clusters[name]
	if c == nil {
		return nil
	}
	return slices.Sorted(maps.Keys(c.owners()))
}
