package yarn

import (
	"github.com/bursar/bursar/resource"
)

// SchedulerKind is which of YARN's schedulers answered.
type SchedulerKind string

// The schedulers.
const (
	CapacityScheduler SchedulerKind = "capacity"
	FairScheduler     SchedulerKind = "fair"
	FifoScheduler     SchedulerKind = "fifo"
)

// Scheduler is what one answer says.
type Scheduler struct {
	Kind SchedulerKind
	// Entries are in the order of the answer, a queue before those below it. No path and partition
	// is there twice.
	Entries []Entry
	// Totals is the size of the cluster by partition, as far as the answer tells: the
	// CapacityScheduler since Hadoop 3.1, the FairScheduler always, the FifoScheduler its memory.
	// A cluster without a machine says zero.
	Totals map[string]resource.Vector
}

// Entry is what an answer says of one queue in one partition. What is nil it does not say.
type Entry struct {
	// Path is the full path, Parent that of the queue above; empty: there is none.
	Path, Parent string
	// Partition is the node label; empty: the default partition, and that of schedulers that know
	// none.
	Partition string
	// Limit is the effective maximum, Guaranteed the effective minimum.
	Limit, Guaranteed *resource.Vector
	// Used is what its applications hold. The CapacityScheduler counts what is reserved in it, the
	// FairScheduler does not.
	Used *resource.Vector
	// Reserved is what is set aside for containers that found no room yet.
	Reserved *resource.Vector
	// AbsoluteCapacity and AbsoluteMaxCapacity are percent of the partition.
	AbsoluteCapacity, AbsoluteMaxCapacity *float64
	// Counts of applications of the queue, whatever their partition. MaxApplications is a limit on
	// running ones in the FairScheduler, on running and pending ones in the CapacityScheduler;
	// 2147483647 is unlimited.
	Applications, Pending, Active, MaxApplications *int32
	// State is RUNNING, STOPPED or DRAINING; empty: not said.
	State string
	// CreatesChildren says that queues below it are made by using them.
	CreatesChildren bool
	// DefaultPartition is the partition of applications that name none.
	DefaultPartition string
}
