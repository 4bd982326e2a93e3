package ledger

import (
	"math"
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
	//
	// All may have the dimensions of applications, see resource.OfApplications; the limits of those
	// that are not listed are not known, and do not limit.
	Limit, Used, Guaranteed resource.Vector
	// Users is what it limits for users in this very queue; nil: nothing.
	Users *QueueUsers
	// Details are nil if there are none: many queues have the same, or none.
	Details *QueueDetails
	// State is its state as the cluster names it; Closed says that it takes no new applications.
	State  string
	Closed bool
	// FirstIsFree says that an application may start whatever its master takes if no other master
	// runs in the queue.
	FirstIsFree bool
	// CreatesChildren says that the cluster creates a queue below it when it is used.
	CreatesChildren bool
	// LeavesOnly says that it takes no applications itself: the queues below it do.
	LeavesOnly bool
	// DefaultPartition is the partition of applications that name none.
	DefaultPartition string
	// These are only shown. In percent of the cluster; nil: not reported.
	AbsoluteCapacity, AbsoluteMaxCapacity          *float64
	Applications, Pending, Active, MaxApplications *int32
}

// QueueDetails is what a cluster says of a queue next to its limits. Nobody changes them.
type QueueDetails struct {
	// LargestContainer is the most that one container may have, in memory and cpu. What is not
	// listed is not known. A master that takes more never starts.
	LargestContainer resource.Vector
	// Division says what masters may have if that moves with which queues are active, and
	// ChildDivision that of a queue below it that the cluster creates when it is used. Nil: it does
	// not.
	Division, ChildDivision *Division
	// These are only shown. NotEnforced are dimensions that the cluster does not look at, Estimated
	// those of the limit that it does not tell. UserPercent is the share of the queue, in percent,
	// that a user is sure of while others want more; nil: not reported, or there is no such limit.
	NotEnforced, Estimated []string
	UserPercent            *float64
	// CreatesBelow are the paths of parents below it that need not be there, nor those between: the
	// cluster makes them when a queue below them is used. Those parents take no applications.
	CreatesBelow []string
	// MayGrow is what the limit may become if the cluster grows, UsersMayGrow what those of users
	// may. A dimension that is not listed does not grow.
	MayGrow, UsersMayGrow resource.Vector
	HeldBack              HeldBack
}

// HeldBack says that a cluster does not start applications in a queue although that has room for
// them.
type HeldBack struct {
	// Applications is how many they are; 0: there are none.
	Applications int32
	// Reason is why, as far as it is known, in one line.
	Reason string
}

// UnaddressableQueues are the first queues of a cluster that no request can name, and how many
// there are in addition. Nobody changes them.
type UnaddressableQueues struct {
	Listed []UnaddressableQueue
	More   int
}

// UnaddressableQueue is a queue of a cluster that no request can name.
type UnaddressableQueue struct {
	// Name is the last name of its path, escaped, Parent the path of the queue above, Partition the
	// node label: all fit to be shown. Reason says why no request can name it.
	Name, Parent, Partition, Reason string
}

// ApplicationReport is what a cluster says of one of our applications.
type ApplicationReport struct {
	ID string
	// Known is false if the cluster has no such application. Ended says that it has ended.
	Known, Ended bool
	// Failure says that it ended without success, as the cluster names it: FAILED or KILLED. Empty:
	// it did not, or that is not known. Diagnostics is why, in the cluster's words.
	Failure, Diagnostics string
	// Queue is where it runs: a full path or, if the cluster says no more, a leaf.
	Queue string
	// User is whom it runs as; empty: the cluster does not say it.
	User string
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
	// Unaddressable are the queues that no request can name; nil: there are none. They are only
	// shown: what they have counts in the queues above.
	Unaddressable *UnaddressableQueues
	// Applications are the answers about those that Ledger.Applications names, each asked for
	// after the queues. An application without an answer counts as not seen by the cluster.
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

// certain is how much of a part the report's figures include for certain: for each application the
// smaller of what it held by the answers before and after the queues were read. If its use only
// rose or only fell in between, it held no less. It may have held less only if its use fell and
// rose again. So the earlier answers count only while their report is valid, and only if that was
// handed in before the cluster was asked for this one: else they, too, may be newer than the
// queues.
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

// allocated is what an application holds of the entry's part, by an answer. What could belong to
// several parts counts in none.
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

// withApplication adds to what an application holds what the cluster counts of it in addition: one
// application, and its master, which has the first container that it got. How much that takes the
// cluster does not say here. It is taken to be what the part says: if the master takes more, the
// rest counts as used by others, and if it takes less, the others count as using less by so much.
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
// says. A path that is full names no other queue.
func (r *reading) runsIn(a *ApplicationReport, path string) bool {
	return a.Queue == path || a.Queue == leaf(path) && !r.namesPath(a.Queue)
}

// Applications returns the ids of the applications of allocations that have a part in the cluster,
// sorted, each id once. These are the ones to ask the cluster for.
func (l *Ledger) Applications(name ClusterName) (ids []string) {
	for left := math.MaxInt; left > 0; {
		var some []string
		some, left = l.SomeApplications(name, left)
		ids = append(ids, some...)
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// applicationsStep is how many allocations and applications SomeApplications looks at. One takes
// some 30 ns.
const applicationsStep = 4096

// SomeApplications is Applications in steps, so that many allocations do not hold the commit loop:
// of allocations that were left by the step before, the next ones; the first step begins with as
// many as there may be. It returns their applications and how many allocations are left then; 0:
// none. The first of each allocation comes first, then the second of each, so that who asks for
// some alone asks for some of each. What begins or ends meanwhile may be missing.
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
