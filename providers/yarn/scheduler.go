package yarn

import (
	"fmt"
	"strings"

	"github.com/bursar/bursar/providers"
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
	// Assume is what the answer does not say.
	Assume Assumptions
	// Absurd are the first figures that no queue can have, such as "root.a: numApplications -3",
	// and MoreAbsurd how many there are in addition. One below zero counts as zero or as not said,
	// one that is too large as the most that can be counted or as not said. Shares of more than 100
	// percent are shown as they are, and count as 100.
	Absurd     []string
	MoreAbsurd int
	// LeftOut are the first queues that are not among the entries, or that take nothing new, and
	// why; MoreLeftOut is how many there are in addition. What queues have that are not among the
	// entries counts in those above.
	LeftOut     []string
	MoreLeftOut int
	// Unaddressable are the first queues that are not among the entries because no request can name
	// them, and MoreUnaddressable is how many there are in addition.
	Unaddressable     []providers.Unaddressable
	MoreUnaddressable int

	typed bool // it says of leaves that they are leaves
}

// Doubts says which figures are absurd and which queues are left out; empty: none.
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
	// ConfiguredLimit and ConfiguredGuarantee are absolute amounts of the CapacityScheduler; zero:
	// they are shares.
	ConfiguredLimit, ConfiguredGuarantee *resource.Vector
	// Waits is what its applications ask for and do not have yet.
	Waits *resource.Vector
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
	// LeavesOnly says that it is a parent queue: it takes no applications itself.
	LeavesOnly bool
	// DefaultPartition is the partition of applications that name none.
	DefaultPartition string
	// AMLimit is the most that the masters of applications may have, AMUsed what they have.
	// AMPercent is the share of the queue that they may have, in percent.
	AMLimit, AMUsed *resource.Vector
	AMPercent       *float64
	// FairShare is what the FairScheduler gives a queue with the others that are active, and
	// SteadyShare what it would give if all were.
	FairShare, SteadyShare *resource.Vector
	// Policy is by what the FairScheduler divides what the queue has: "fair" is memory alone, "DRF"
	// all resources.
	Policy string
	// UserAMLimit is what one user's masters may have before Hadoop 2.8, in which all users have
	// the same.
	UserAMLimit *resource.Vector
	// ApplicationsPerUser limits running and pending ones of one user, ParallelApplications the
	// running ones of the queue.
	ApplicationsPerUser, ParallelApplications *int32
	// UserPercent is the share of the queue that each of several users is sure of, in percent, and
	// UserFactor how often a user may have what the queue is promised; -1: all that it may have.
	UserPercent, UserFactor *float64
	// LargestContainer is the most that one container may have.
	LargestContainer *resource.Vector
	// Containers is how many it has in all partitions.
	Containers *int32
	Users      []UserEntry
	// AutoCreated says that it was made by using it in a way in which YARN does not count its
	// applications.
	AutoCreated bool
	// Crowded says that it has more users than are kept, so that what a user may have there cannot
	// be told. It has no users here.
	Crowded bool
	// Doubled says that another queue has the same path.
	Doubled bool

	// unlisted is what the queues below have that are left out; nil: there are none.
	unlisted *providers.Queue
}

// UserEntry is what an answer says of a user in a queue and partition. What is nil it does not say.
type UserEntry struct {
	Name         string
	Used, AMUsed *resource.Vector
	// AMLimit is what the user's masters could have when one was last started.
	AMLimit *resource.Vector
	// Applications are those that run and that wait, in all partitions.
	Applications *int32
	// Weight is 1 for most. Active says that the user waits for something.
	Weight *float64
	Active bool
}
