package ledger

import (
	"time"

	"github.com/bursar/bursar/resource"
)

// QueueReport is what a cluster says of one queue in one partition.
type QueueReport struct {
	// Path is the full path, its elements separated by dots; Parent that of the queue above, empty for the root. Partition is the node
	// label, empty for the default one.
	Path, Parent, Partition string
	// Limit is the most it may have. Memory, cpu and instances that are not listed are not limited; of custom countables that are not
	// listed there are none. Used is what all its applications hold, Guaranteed what the cluster promises it.
	Limit, Used, Guaranteed resource.Vector
	// State is the cluster's word for it; Closed says that it takes no new applications.
	State  string
	Closed bool
	// CreatesChildren says that a queue below it need not be there: using it makes it.
	CreatesChildren bool
	// DefaultPartition is where an application goes that names no partition.
	DefaultPartition string
	// Only shown. In percent of the cluster; nil: not told.
	AbsoluteCapacity, AbsoluteMaxCapacity          *float64
	Applications, Pending, Active, MaxApplications *int32
}

// ApplicationReport is what a cluster says of one of our applications.
type ApplicationReport struct {
	ID string
	// Known is false where the cluster has no such application. Ended says that it is over.
	Known, Ended bool
	// Queue is where it runs: a full path or, where the cluster says no more, a leaf.
	Queue string
	// Allocated is what it holds, by partition. AnyPartition stands for the one that it runs in where the cluster does not say which.
	Allocated map[string]resource.Vector
}

// AnyPartition is the partition of what an application holds where the cluster does not say which it is.
const AnyPartition = "*"

// ClusterReport is what was read of a cluster: its queues at one moment, and then our applications, one by one.
type ClusterReport struct {
	ClusterName
	// Asked is when the cluster was asked, not when it answered. One that was asked earlier than the last, or before the settings
	// changed, changes nothing.
	Asked Instant
	// GoodFor is how long it holds, from Asked on. After that nothing is known any more.
	GoodFor time.Duration
	// Settle is how long after its confirmation an engine without application ids counts as not seen by the cluster.
	Settle time.Duration
	// Incarnation changes when the cluster was restarted or failed over.
	Incarnation string
	// Untrusted says why the figures are not to be counted on yet; empty where they are.
	Untrusted string
	Queues    []QueueReport
	// Applications are the answers about those that Ledger.Applications names, each asked for after the queues were. What has no answer
	// counts as not seen by the cluster.
	Applications []ApplicationReport
}
