package yarn

import (
	"math"
	"slices"
	"strings"

	"github.com/bursar/bursar/providers"
	"github.com/bursar/bursar/resource"
)

// Queues returns the queues of a snapshot. What the answer does not say follows from the rest and
// from the size of the cluster: that of the answer itself, and for partitions that it leaves out
// (see Unsized) the one in totals. A partition that is in neither has no machine.
//
// Limits and guarantees that are not in the answer are shares of the partition; for a queue
// without a share in a partition they are zero. What a queue uses and how many applications it has
// is the sum of those below it, if the answer does not say. A FairScheduler's reservations are
// added to what is used.
func (s *Scheduler) Queues(totals map[string]resource.Vector) []providers.Queue {
	queues := make([]providers.Queue, len(s.Entries))
	rows := make(map[queueKey]int, len(s.Entries))
	for i, e := range s.Entries {
		rows[queueKey{e.Path, e.Partition}] = i
		queues[i] = s.queue(e, s.total(e.Partition, totals))
	}
	// From the last to the first, so that a queue is complete before it counts in the one above.
	firsts := s.firsts()
	for i := len(queues) - 1; i >= 0; i-- {
		e := &s.Entries[i]
		above, exists := rows[queueKey{e.Parent, e.Partition}]
		if exists && e.Parent != "" && s.Entries[above].Used == nil {
			queues[above].Used = plus(queues[above].Used, queues[i].Used)
		}
		if first, exists := firsts[e.Path]; !exists || first != i {
			continue
		}
		if above, exists := firsts[e.Parent]; exists && e.Parent != "" {
			addCounts(&queues[above], &s.Entries[above], &queues[i])
		}
	}
	for i, e := range s.Entries { // the counts are those of the queue, whatever the partition
		first := &queues[firsts[e.Path]]
		q := &queues[i]
		q.Applications, q.Pending, q.Active = first.Applications, first.Pending, first.Active
	}
	s.limitApplications(queues)
	s.addGrowth(queues)
	return queues
}

// Unsized returns the partitions, sorted, whose limits need a size of the cluster that the answer
// does not have.
func (s *Scheduler) Unsized() []string {
	var list []string
	for i := range s.Entries {
		e := &s.Entries[i]
		if _, known := s.Totals[e.Partition]; !known && e.Limit == nil && (e.Parent == "" || e.AbsoluteMaxCapacity != nil) {
			list = append(list, e.Partition)
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// queueKey is one queue in one partition.
type queueKey struct{ path, partition string }

// firsts returns the first row of every queue.
func (s *Scheduler) firsts() map[string]int {
	firsts := make(map[string]int, len(s.Entries))
	for i := range s.Entries {
		if _, exists := firsts[s.Entries[i].Path]; !exists {
			firsts[s.Entries[i].Path] = i
		}
	}
	return firsts
}

func (s *Scheduler) total(partition string, totals map[string]resource.Vector) resource.Vector {
	if total, known := s.Totals[partition]; known {
		return total
	}
	if total, known := totals[partition]; known {
		return total
	}
	return resource.Vector{}.WithMemory(0).WithCPU(0)
}

// queue returns what an entry says, without what follows from other entries.
func (s *Scheduler) queue(e Entry, total resource.Vector) providers.Queue {
	q := providers.Queue{
		Path: e.Path, Parent: e.Parent, Partition: e.Partition,
		Limit:      s.vectorOf(&e, e.Limit, e.AbsoluteMaxCapacity, total),
		Guaranteed: s.vectorOf(&e, e.Guaranteed, e.AbsoluteCapacity, total),
		Used:       resource.Vector{}.WithMemory(0).WithCPU(0),
		State:      e.State,
		// A ResourceManager takes applications for a queue that is RUNNING and for no other.
		Closed:           e.State != "" && e.State != "RUNNING" || e.Crowded || e.Doubled,
		CreatesChildren:  e.CreatesChildren || e.LeavesOnly && s.Assume.Undeclared.below(e.Path, s.Kind),
		LeavesOnly:       e.LeavesOnly,
		DefaultPartition: e.DefaultPartition,
		AbsoluteCapacity: e.AbsoluteCapacity, AbsoluteMaxCapacity: e.AbsoluteMaxCapacity,
		Applications: counted(e.Applications), Pending: counted(e.Pending), Active: counted(e.Active),
		MaxApplications: counted(e.MaxApplications),
	}
	if e.LeavesOnly {
		q.CreatesBelow = s.Assume.Undeclared.parentsIn(e.Path)
	}
	if e.Crowded { // which is said where its state is
		q.State = strings.TrimPrefix(e.State+", and more users than are counted", ", ")
	}
	if e.Doubled {
		q.State = strings.TrimPrefix(e.State+", and another queue has the same path", ", and ")
	}
	if e.Used != nil {
		q.Used = *e.Used
	}
	if e.Reserved != nil && s.Kind == FairScheduler {
		q.Used = plus(q.Used, *e.Reserved)
	}
	if q.Applications == nil && q.Pending != nil && q.Active != nil {
		q.Applications = plusCount(q.Pending, q.Active)
	}
	if e.unlisted != nil {
		if e.Used == nil {
			q.Used = plus(q.Used, e.unlisted.Used)
		}
		addCounts(&q, &e, e.unlisted)
	}
	return q
}

// vectorOf returns what a queue may have or is promised of a partition.
func (s *Scheduler) vectorOf(e *Entry, said *resource.Vector, percent *float64, total resource.Vector) resource.Vector {
	switch {
	case said != nil:
		return *said
	case percent != nil:
		return share(*percent, total)
	case e.Parent == "":
		return total
	default:
		return resource.Vector{}.WithMemory(0).WithCPU(0)
	}
}

// counted leaves out YARN's word for unlimited, and what is no count.
func counted(n *int32) *int32 {
	if n == nil || *n < 0 || *n == math.MaxInt32 {
		return nil
	}
	return n
}

// addCounts adds the applications of a queue to those of the one above, as far as the answer does
// not say these.
func addCounts(above *providers.Queue, said *Entry, below *providers.Queue) {
	if said.Applications == nil {
		above.Applications = plusCount(above.Applications, below.Applications)
	}
	if said.Pending == nil {
		above.Pending = plusCount(above.Pending, below.Pending)
	}
	if said.Active == nil {
		above.Active = plusCount(above.Active, below.Active)
	}
}

func plusCount(a, b *int32) *int32 {
	switch {
	case b == nil:
		return a
	case a == nil:
		return b
	default:
		return new(*a + min(*b, math.MaxInt32-*a))
	}
}

// plus returns the sum. No quantity becomes more than resource.MaxQuantity, and no more types are
// summed than a vector may have.
func plus(v, w resource.Vector) resource.Vector {
	for dimension, q := range w.All() {
		sum, there := v.Get(dimension)
		if !there && len(v.Custom()) == resource.MaxCustom && dimension != resource.Memory && dimension != resource.CPU {
			continue
		}
		v = v.With(dimension, min(sum+q, resource.MaxQuantity))
	}
	return v
}
