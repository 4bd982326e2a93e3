package yarn

import (
	"fmt"
	"strings"

	"github.com/bursar/bursar/providers"
	"github.com/bursar/bursar/resource"
)

// SchedulerKind is the type of YARN scheduler that answered.
type SchedulerKind string

// The schedulers.
const (
	CapacityScheduler SchedulerKind = "capacity"
	FairScheduler     SchedulerKind = "fair"
	FifoScheduler     SchedulerKind = "fifo"
)

// Scheduler is the content of one answer.
type Scheduler struct {
	Kind SchedulerKind
	// Entries are in the order of the answer, parents before children. Each pair of path and
	// partition is unique.
	Entries []Entry
	// Totals is the size of the cluster by partition, as far as the answer has it: the
	// CapacityScheduler since Hadoop 3.1, the FairScheduler always, the FifoScheduler only memory.
	// A cluster without machines reports zero.
	Totals map[string]resource.Vector
	// Assume holds configuration that is not in the answer.
	Assume Assumptions
	// Absurd lists the first impossible figures, such as "root.a: numApplications -3"; MoreAbsurd
	// is the number of further ones. A negative figure counts as zero or as missing, an oversized
	// one as the maximum or as missing. Shares above 100 percent are shown as they are, and count
	// as 100.
	Absurd     []string
	MoreAbsurd int
	// LeftOut lists the first queues that are left out or closed to new requests, with the reason;
	// MoreLeftOut is the number of further ones. The use of a queue that is left out counts in its
	// parent.
	LeftOut     []string
	MoreLeftOut int
	// Unaddressable lists the first queues that are left out because no request can name them;
	// MoreUnaddressable is the number of further ones.
	Unaddressable     []providers.Unaddressable
	MoreUnaddressable int

	typed bool // the answer marks leaves as leaves
}

// Doubts describes the absurd figures and the queues that were left out; empty: none.
func (s *Scheduler) Doubts() string {
	var doubts []string
	for _, d := range []struct {
		what  string
		first []string
		more  int
	}{{"figures that no queue can have: ", s.Absurd, s.MoreAbsurd}, {"left out: ", s.LeftOut, s.MoreLeftOut}} {
		if len(d.first) == 0 {
			continue
		}
		text := d.what + strings.Join(d.first, ", ")
		if d.more > 0 {
			text += fmt.Sprintf(" and %d more", d.more)
		}
		doubts = append(doubts, text)
	}
	return strings.Join(doubts, "; ")
}

// Entry is the part of an answer about one queue in one partition. A nil field is not in the
// answer.
type Entry struct {
	// Path is the full path. Parent is the path of the queue above; empty for the root.
	Path, Parent string
	// Partition is the node label; empty for the default partition, and for schedulers without
	// partitions.
	Partition string
	// Limit is the effective maximum, Guaranteed the effective minimum.
	Limit, Guaranteed *resource.Vector
	// Used is the total of its applications. The CapacityScheduler includes reservations, the
	// FairScheduler does not.
	Used *resource.Vector
	// Reserved is the amount reserved for containers that do not fit yet.
	Reserved *resource.Vector
	// ConfiguredLimit and ConfiguredGuarantee are configured absolute amounts of the
	// CapacityScheduler; zero: shares are configured.
	ConfiguredLimit, ConfiguredGuarantee *resource.Vector
	// Waits is the amount that its applications have requested but not received.
	Waits *resource.Vector
	// AbsoluteCapacity and AbsoluteMaxCapacity are percentages of the partition.
	AbsoluteCapacity, AbsoluteMaxCapacity *float64
	// Counts of the queue's applications in all partitions. MaxApplications limits running
	// applications in the FairScheduler, running and pending ones in the CapacityScheduler;
	// 2147483647 is unlimited.
	Applications, Pending, Active, MaxApplications *int32
	// State is RUNNING, STOPPED or DRAINING; empty: not in the answer.
	State string
	// CreatesChildren says that the cluster creates queues below it on first use.
	CreatesChildren bool
	// LeavesOnly says that it is a parent queue, which takes no applications itself.
	LeavesOnly bool
	// DefaultPartition is the partition of applications that name none.
	DefaultPartition string
	// AMLimit is the limit for application masters, AMUsed their use. AMPercent is the masters'
	// share of the queue, in percent.
	AMLimit, AMUsed *resource.Vector
	AMPercent       *float64
	// FairShare is the queue's share among the active queues, SteadyShare its share if all queues
	// were active.
	FairShare, SteadyShare *resource.Vector
	// Policy is how the FairScheduler divides the queue: "fair" by memory only, "DRF" by all
	// resources.
	Policy string
	// UserAMLimit is the limit for one user's masters before Hadoop 2.8. It is the same for all
	// users.
	UserAMLimit *resource.Vector
	// ApplicationsPerUser limits one user's running and pending applications, ParallelApplications
	// the running ones of the queue.
	ApplicationsPerUser, ParallelApplications *int32
	// UserPercent is the guaranteed share of each user among several, in percent. UserFactor times
	// the guarantee is a user's limit; -1: the queue's maximum.
	UserPercent, UserFactor *float64
	// LargestContainer is the maximum of one container.
	LargestContainer *resource.Vector
	// Containers is the number of its containers in all partitions.
	Containers *int32
	Users      []UserEntry
	// AutoCreated says that YARN created the queue on first use in the older way, in which it does
	// not limit its applications.
	AutoCreated bool
	// Crowded says that the queue has too many users to keep. Users is then empty, and the limits
	// of users are unknown.
	Crowded bool
	// Doubled says that another queue has the same path.
	Doubled bool

	// unlisted is the use of the queues below that are left out; nil: none.
	unlisted *providers.Queue
}

// UserEntry is the part of an answer about a user in a queue and partition. A nil field is not in
// the answer.
type UserEntry struct {
	Name         string
	Used, AMUsed *resource.Vector
	// AMLimit is the limit for the user's masters when YARN last started one.
	AMLimit *resource.Vector
	// Applications counts running and waiting applications in all partitions.
	Applications *int32
	// Weight is usually 1. Active says that the user waits for resources.
	Weight *float64
	Active bool
}
