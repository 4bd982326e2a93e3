package ledger

import (
	"math"
	"slices"
	"time"

	"github.com/bursar/bursar/resource"
)

// QueueReport is a cluster's report of one queue in one partition.
type QueueReport struct {
	// Path is the full path, its elements separated by dots; Parent that of the queue above, empty
	// for the root. Partition is the node label, empty for the default one.
	Path, Parent, Partition string
	// Limit is the most that the queue may have. Memory, cpu and instances that are not listed are
	// not limited. Custom countables that are not listed do not exist. Used is the sum of its
	// applications, Guaranteed the amount that the cluster promises to it.
	//
	// All three may have the dimensions of applications, see resource.OfApplications. If the limit
	// does not list one of these, it is unknown and does not limit.
	Limit, Used, Guaranteed resource.Vector
	// Users are the limits for users in this queue itself; nil: none.
	Users *QueueUsers
	// Details may be nil. Many queues share the same Details.
	Details *QueueDetails
	// State is the queue's state as the cluster names it. Closed says that it takes no new
	// applications.
	State  string
	Closed bool
	// FirstIsFree says that the limits of masters do not apply to an application if no other master
	// runs in the queue.
	FirstIsFree bool
	// CreatesChildren says that the cluster creates child queues on first use.
	CreatesChildren bool
	// LeavesOnly says that only the queues below it take applications.
	LeavesOnly bool
	// DefaultPartition is the partition of applications that name none.
	DefaultPartition string
	// The ledger only shows these. The capacities are in percent of the cluster; nil: not reported.
	AbsoluteCapacity, AbsoluteMaxCapacity          *float64
	Applications, Pending, Active, MaxApplications *int32
}

// QueueDetails is a cluster's report of a queue in addition to its limits. It is immutable.
type QueueDetails struct {
	// LargestContainer is the most that one container may have, in memory and cpu. A dimension that
	// is not listed is unknown. A larger master never starts.
	LargestContainer resource.Vector
	// Division is set if the limit of masters depends on which queues are active. ChildDivision is
	// the Division of a child queue that the cluster creates on first use. Nil: the limit does not
	// depend on them.
	Division, ChildDivision *Division
	// The ledger only shows these. NotEnforced are dimensions that the cluster does not enforce,
	// Estimated those of the limit that it does not report. UserPercent is the share of the queue,
	// in percent, that a user is sure of while others want more; nil: not reported, or there is no
	// such limit.
	NotEnforced, Estimated []string
	UserPercent            *float64
	// CreatesBelow are the paths of parents below the queue that may not exist yet. The cluster
	// creates them, and the queues between, when a queue below them is used. These parents take no
	// applications.
	CreatesBelow []string
	// MayGrow is the limit that the queue may get if the cluster grows, UsersMayGrow the same for
	// the limits of users. A dimension that is not listed does not grow.
	MayGrow, UsersMayGrow resource.Vector
	HeldBack              HeldBack
}

// HeldBack reports applications that a cluster does not start although their queue has room for
// them.
type HeldBack struct {
	// Applications is their number; 0: none.
	Applications int32
	// Reason is the known reason, in one line.
	Reason string
}

// UnaddressableQueues are the first queues of a cluster that no request can name, and the number of
// the others. It is immutable.
type UnaddressableQueues struct {
	Listed []UnaddressableQueue
	More   int
}

// UnaddressableQueue is a queue of a cluster that no request can name.
type UnaddressableQueue struct {
	// Name is the last name of the path, escaped, Parent the path of the queue above, Partition the
	// node label: all fit to be shown. Reason says why no request can name the queue.
	Name, Parent, Partition, Reason string
}

// ApplicationReport is a cluster's report of one of our applications.
type ApplicationReport struct {
	ID string
	// Known is false if the cluster has no such application. Ended says that it has ended.
	Known, Ended bool
	// Failure is the cluster's name for an end without success: FAILED or KILLED. It is empty for
	// other applications, and if the end is unknown. Diagnostics is the cluster's explanation.
	Failure, Diagnostics string
	// Queue is the application's queue: a full path or, if the cluster reports no more, a leaf.
	Queue string
	// User is the application's user; empty if the cluster does not report it.
	User string
	// Allocated is the application's use, by partition. AnyPartition stands for its partition if
	// the cluster does not report which one.
	Allocated map[string]resource.Vector
}

// AnyPartition is the partition of an application's use if the cluster does not report which one.
const AnyPartition = "*"

// ClusterReport is one reading of a cluster: its queues at one moment, and then our applications,
// one by one.
type ClusterReport struct {
	ClusterName
	// Asked is when the cluster was asked, not when it answered. A report that was asked for
	// earlier than the last one, or before the settings changed, changes nothing. If it was asked
	// for before the last one was handed in, no application counts as seen.
	Asked Instant
	// GoodFor is how long the report is valid, from Asked on. After that the cluster's state is
	// unknown.
	GoodFor time.Duration
	// Settle is how long after its confirmation an engine without application ids counts as not
	// seen by the cluster.
	Settle time.Duration
	// Incarnation changes after a restart or a failover of the cluster.
	Incarnation string
	// Untrusted says why the figures are not reliable yet; empty if they are.
	Untrusted string
	Queues    []QueueReport
	// Unaddressable are the queues that no request can name; nil: none. The ledger only shows them:
	// the queues above include their use.
	Unaddressable *UnaddressableQueues
	// Applications are the answers about the applications in Ledger.Applications. The cluster was
	// asked for each after its queues. An application without an answer counts as not seen by the
	// cluster.
	Applications []ApplicationReport

	indexed *indexedReport // see Prepare
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

// certain returns the use of a part that the report's figures certainly include. For each
// application it is the smaller of the uses in the answers before and after the queues were read.
// If its use only rose or only fell in between, it held no less. It may have held less only if its
// use fell and rose again. So the earlier answers count only while their report is valid, and only
// if that was handed in before the cluster was asked for this one: otherwise they, too, may be
// newer than the queues.
func (r *reading) certain(e *entry, part int) resource.Vector {
	total := resource.Vector{}
	for i, id := range e.ApplicationIDs {
		if r.owners[id].id != e.ID || slices.Contains(e.ApplicationIDs[:i], id) {
			continue
		}
		least := lesser(r.allocated(e, part, r.before[id]), r.allocated(e, part, r.answers[id]))
		if sum, err := total.Add(least); err == nil {
			total = sum
		}
	}
	return total
}

// allocated returns an application's use of the entry's part, by an answer. Use that could belong
// to several parts counts in none.
func (r *reading) allocated(e *entry, part int, a *ApplicationReport) resource.Vector {
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
		candidate := other.Kind == at.Kind && other.Cluster == at.Cluster && r.runsIn(a, other.Path) && (!told || other.Partition == at.Partition)
		if candidate != (i == part) {
			return resource.Vector{}
		}
	}
	return withApplication(clamped(held), e.Entitled.External[part].Vector)
}

// withApplication adds the amounts that the cluster counts in addition to an application's use: one
// application, and its master, which is its first container. The answer does not tell the master's
// size, so the part's size is taken. If the master takes more, the rest counts as used by others.
// If it takes less, the others count as using less by so much.
func withApplication(held, part resource.Vector) resource.Vector {
	runs := !held.IsZero()
	for _, q := range part.Custom() {
		switch {
		case q.Name == resource.Applications:
			held = held.With(q.Name, 1)
		case resource.OfMasters(q.Name) && runs:
			held = held.With(q.Name, q.Value)
		}
	}
	return held
}

// runsIn reports whether the application is in the queue with this path, as far as the cluster
// reports. A full path names no other queue.
func (r *reading) runsIn(a *ApplicationReport, path string) bool {
	return a.Queue == path || a.Queue == leaf(path) && !r.namesPath(a.Queue)
}

// Applications returns the application ids of allocations with a part in the cluster, sorted, each
// id once. The provider asks the cluster for these.
func (l *Ledger) Applications(name ClusterName) (ids []string) {
	for left := math.MaxInt; left > 0; {
		var some []string
		some, left = l.SomeApplications(name, left)
		ids = append(ids, some...)
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// applicationsStep is the number of allocations and applications in a step of SomeApplications. One
// takes some 30 ns.
const applicationsStep = 4096

// SomeApplications is Applications in steps, so that many allocations do not hold the commit loop.
// left is the number of allocations that the step before left; the first step passes math.MaxInt.
// The result is the ids of the next allocations and the number of allocations left then; 0: none.
// The first id of each allocation comes first, then the second of each, so that a caller that takes
// only some ids gets some of each allocation. Ids that begin or end meanwhile may be missing.
func (l *Ledger) SomeApplications(name ClusterName, left int) (ids []string, after int) {
	c := l.clusters[name]
	if c == nil {
		return nil, 0
	}
	// The last member comes first: it takes the place of one that leaves.
	left = min(left, len(c.members))
	var some []*entry
	for n := 0; left > 0 && n < applicationsStep; n++ {
		left--
		if e := c.members[left]; len(e.ApplicationIDs) > 0 {
			some = append(some, e)
			n += len(e.ApplicationIDs)
		}
	}
	for turn := 0; len(some) > 0; turn++ {
		more := some[:0]
		for _, e := range some {
			ids = append(ids, e.ApplicationIDs[turn])
			if turn+1 < len(e.ApplicationIDs) {
				more = append(more, e)
			}
		}
		some = more
	}
	return ids, left
}
