package ledger

import (
	"github.com/bursar/bursar/resource"
)

// QueueInfo is a queue of an external cluster with its account, for readers.
type QueueInfo struct {
	Address resource.Address
	Parent  string // path of the queue above; empty for the root
	Account AccountInfo
	// Report is the last reading of the queue, Known whether that is still valid, and Asked when
	// its cluster was asked for the last report that was taken in as a whole.
	Report QueueReport
	Known  bool
	Asked  Instant
	// Available is the least that it and the queues above it have left, in the dimensions that any
	// of them limits.
	Available resource.Vector
	// Unavailable says why nothing is granted from it; empty if it is available.
	Unavailable string
}

// ClusterInfo is an external cluster, for readers.
type ClusterInfo struct {
	ClusterName
	Configured  bool // a provider is
	Known       bool // the last report is still valid
	Asked       Instant
	Unavailable string // why nothing is granted there; empty if it is available
	Queues      int    // in the last report, counted once for each partition
	Allocations int    // reserved and active ones that have a part there
	// Unaddressable are the queues in the last report that no request can name; nil: none.
	Unaddressable *UnaddressableQueues
}

// Queues yields the queues with addresses after the given one, in the order of Address.Compare:
// those in the last reports of their clusters, and those that live allocations charge, with the
// queues above them.
func (l *Ledger) Queues(after resource.Address, yield func(QueueInfo) bool) {
	for _, name := range l.clusterNames() {
		c := l.clusters[name]
		more := true
		c.order.Ascend(&clusterQueue{address: after}, func(q *clusterQueue) bool {
			more = q.address == after || yield(l.queueInfo(q))
			return more
		})
		if !more {
			return
		}
	}
}

// Queue returns a queue. Missing parts of the address are completed as in a request without labels.
// Unlike a request it also finds a queue that is no longer known, in its last state.
//
// Errors: *FieldError, *NotFoundError.
func (l *Ledger) Queue(at resource.Address) (QueueInfo, error) {
	c := l.clusters[ClusterName{at.Kind, at.Cluster}]
	if c == nil {
		var err error
		if c, err = l.clusterOf("queue", at, nil); err != nil {
			return QueueInfo{}, err
		}
	}
	full := resource.Address{Kind: c.Kind, Cluster: c.Cluster, Path: at.Path, Partition: at.Partition}
	if _, there := c.standard[at.Path]; !there && len(c.leaves[at.Path]) > 0 {
		paths := c.leaves[at.Path]
		if len(paths) > 1 {
			return QueueInfo{}, &FieldError{"queue.path", at.Path, "the full path of one of these queues: " + listed(paths)}
		}
		full.Path = paths[0]
	}
	if full.Partition == "" {
		full.Partition = c.standard[full.Path]
	}
	q := c.queues[queueKey{full.Path, full.Partition}]
	switch {
	case q != nil:
		return l.queueInfo(q), nil
	case c.known && c.autoCreates(queueKey{full.Path, full.Partition}):
		return QueueInfo{}, &NotFoundError{What: "queue until it is used", ID: full.String()}
	default:
		return QueueInfo{}, &NotFoundError{What: "queue", ID: full.String()}
	}
}

func (l *Ledger) queueInfo(q *clusterQueue) QueueInfo {
	info := QueueInfo{
		Address: q.address, Account: q.account.info(), Report: q.report,
		Known: q.known && q.cluster.known, Asked: q.cluster.asked, Unavailable: q.unavailable(l.now),
	}
	info.Parent, _ = parentPath(q.address.Path)
	for limiting := q; limiting != nil; limiting = limiting.parent {
		for dimension := range limiting.account.limit.All() {
			if info.Available.Has(dimension) {
				continue
			}
			least := q.account.available(dimension)
			for higher := q.parent; higher != nil; higher = higher.parent {
				least = min(least, higher.account.available(dimension))
			}
			info.Available = info.Available.With(dimension, max(0, least))
		}
	}
	return info
}

// grantsNothing reports whether the queue, or the queue of a user's part, gets no grants even if it
// has room.
func (q *clusterQueue) grantsNothing(now Instant) bool {
	if q.of != nil {
		q = q.of.queue
	}
	return q.unavailable(now) != ""
}

// unavailable says why the queue grants nothing; empty if it is available.
func (q *clusterQueue) unavailable(now Instant) string {
	for at := q; at != nil; at = at.parent {
		var why string
		switch note := at.unschedulable(); note {
		case "":
			if at == q && q.awaitsStarts() {
				return q.heldBack().String()
			}
			continue
		case NoteUnknown:
			return at.detail(note, now)
		case NoteMissing:
			why = "its cluster does not have it"
		default:
			why = withReason("it takes no applications", at.detail(note, now))
		}
		if at != q {
			why = at.address.Path + ": " + why
		}
		return why
	}
	return ""
}

// Clusters returns all clusters, by name.
func (l *Ledger) Clusters() []ClusterInfo {
	list := make([]ClusterInfo, 0, len(l.clusters))
	for _, name := range l.clusterNames() {
		c := l.clusters[name]
		list = append(list, ClusterInfo{
			ClusterName: name, Configured: c.configured, Known: c.known, Asked: c.asked, Unavailable: c.unknown(l.now),
			Queues: c.reportedQueues, Allocations: len(c.members),
			Unaddressable: c.unaddressable,
		})
	}
	return list
}
