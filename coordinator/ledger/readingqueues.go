package ledger

import "github.com/bursar/bursar/resource"

const (
	// queueCost is the cost of a queue that changes over to a report, in units of a step: it takes
	// more than a microsecond.
	queueCost = 3
	// endCost is the cost of the end of an allocation, in units of a step: it takes some
	// microseconds.
	endCost = 16
)

// updateQueues lets queues go over to the report, in the order of their addresses: those that it
// has, and those that it has not. After each queue come the users' parts of it.
func (r *reading) updateQueues(l *Ledger, left *int) (done bool) {
	c := r.cluster
	r.list = c.queuesAfter(r.after, *left/queueCost+1, r.list[:0])
	there := r.list
	r.updateUsers(l, left)
	for *left > 0 && (r.at < len(r.order) || len(there) > 0) {
		var q *clusterQueue
		var report *QueueReport
		if r.at < len(r.order) {
			if i := r.order[r.at]; len(there) == 0 || r.address(i).Compare(there[0].address) <= 0 {
				report = &r.Queues[i]
				q = c.queue(queueKey{report.Path, report.Partition}, nil)
				r.at++
			}
		}
		if len(there) > 0 && (q == nil || q == there[0]) {
			q, there = there[0], there[1:]
		}
		r.after = q.address
		r.updateQueue(l, q, report)
		*left -= queueCost
		r.updateUsers(l, left)
	}
	if *left <= 0 {
		return false // there may be more queues
	}
	r.conclude(l)
	return true
}

// updateUsers lets users' parts of the queue that has gone over last do so, in the order of their
// names. One that is made meanwhile has the figures of the report from the beginning.
func (r *reading) updateUsers(l *Ledger, left *int) {
	if r.usersOf == nil {
		return
	}
	for _, u := range r.usersOf.usersAfter(r.user) {
		if *left <= 0 {
			return
		}
		r.user = u.of.user
		u.applyUserReport()
		l.freedUser(u)
		*left -= queueCost
	}
	r.usersOf, r.user = nil, ""
}

// awaits reports whether a user's part has yet to go over to the report, to which its queue has
// gone over.
func (r *reading) awaits(u *clusterQueue) bool {
	return r != nil && r.usersOf == u.of.queue && u.of.user > r.user
}

// queuesAfter adds at most so many of the cluster's queues to an empty list, in order: those that
// come after an address.
func (c *cluster) queuesAfter(after resource.Address, most int, list []*clusterQueue) []*clusterQueue {
	c.order.Ascend(&clusterQueue{address: after}, func(q *clusterQueue) bool {
		if q.address != after {
			list = append(list, q)
		}
		return len(list) < most
	})
	return list
}

// updateQueue lets a queue go over to the report; nil: the report does not have it.
func (r *reading) updateQueue(l *Ledger, q *clusterQueue, report *QueueReport) {
	r.changed = r.changed || q.known != (report != nil) || report != nil && q.report.DefaultPartition != report.DefaultPartition
	if report != nil {
		q.setReport(report)
	} else {
		q.known, q.report = false, QueueReport{}
	}
	q.taken = r.number
	q.applyReport()
	if r.cluster.prune(q); !q.dropped {
		l.freed(&q.account)
		r.usersOf, r.user = q, ""
	}
}

// conclude updates the cluster from the report, now that all queues have changed over to it.
func (r *reading) conclude(l *Ledger) {
	c := r.cluster
	c.reported, c.asked, c.taken, c.reportedQueues = true, r.Asked, r.taken, len(r.Queues)
	c.incarnation, c.untrusted, c.answers, c.leaves, c.standard = r.Incarnation, r.Untrusted, r.answers, r.leaves, r.standard
	c.unaddressable = r.Unaddressable
	if c.fullPaths {
		c.leaves = nil
	}
	r.setCapacity(l)
	r.wake = !c.known && r.valid(l.now)
	c.known = r.valid(l.now)
	l.timers.set(&c.timer, 0)
	if c.known {
		l.timers.set(&c.timer, r.until)
	}
	if r.changed {
		l.dimensionsGeneration++ // they may list others
	}
}

// wakeQueues marks all queues if nothing was known of the cluster before: nothing was granted from
// those that went over to the report.
func (r *reading) wakeQueues(l *Ledger, left *int) (done bool) {
	if !r.wake {
		return true
	}
	r.list = r.cluster.queuesAfter(r.after, *left, r.list[:0])
	for _, q := range r.list {
		l.freed(&q.account)
		r.after = q.address
		*left--
	}
	return *left > 0 // else there may be more
}

// endMembers ends allocations with their applications, unless these have changed meanwhile.
func (r *reading) endMembers(l *Ledger, left *int) (done bool) {
	if r.endsNone {
		return true
	}
	for *left > 0 && r.over.Len() > 0 {
		id, _ := r.over.PopMin()
		if e := l.entry(id); e != nil && e.State == Active && e.external.ended() {
			l.becomeReleased(e, r.endReason(e))
		}
		*left -= endCost
	}
	return r.over.Len() == 0
}
