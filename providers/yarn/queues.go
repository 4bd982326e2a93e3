package yarn

import (
	"math"
	"slices"
	"strings"

	"github.com/bursar/bursar/providers"
	"github.com/bursar/bursar/resource"
)

// Queues returns the queues of a snapshot. It derives missing values from the rest of the answer
// and from the size of the cluster. The size comes from the answer, or from totals for partitions
// that the answer leaves out (see Unsized). A partition that is in neither has no machines.
//
// A missing limit or guarantee is the queue's share of the partition; without a share it is zero. A
// missing use, or number of applications, is the sum over the queues below. The reservations of a
// FairScheduler are added to the use.
func (s *Scheduler) Queues(totals map[string]resource.Vector) []providers.Queue {
	queues := make([]providers.Queue, len(s.Entries))
	rows := make(map[queueKey]int, len(s.Entries))
	for i, e := range s.Entries {
		rows[queueKey{e.Path, e.Partition}] = i
		queues[i] = s.queue(e, s.total(e.Partition, totals))
	}
	// From last to first, so that a queue is complete before it is added to its parent.
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
	for i, e := range s.Entries { // counts are per queue, not per partition
		first := &queues[firsts[e.Path]]
		q := &queues[i]
		q.Applications, q.Pending, q.Active = first.Applications, first.Pending, first.Active
	}
	s.limitApplications(queues)
	s.addGrowth(queues)
	return queues
}

// Unsized returns, sorted, the partitions whose limits need a cluster size that is missing from the
// answer.
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

// queueKey identifies one queue in one partition.
type queueKey struct{ path, partition string }

// firsts returns the index of each queue's first row.
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

// queue converts an entry, without the values that follow from other entries.
func (s *Scheduler) queue(e Entry, total resource.Vector) providers.Queue {
	q := providers.Queue{
		Path: e.Path, Parent: e.Parent, Partition: e.Partition,
		Limit:      s.vectorOf(&e, e.Limit, e.AbsoluteMaxCapacity, total),
		Guaranteed: s.vectorOf(&e, e.Guaranteed, e.AbsoluteCapacity, total),
		Used:       resource.Vector{}.WithMemory(0).WithCPU(0),
		State:      e.State,
		// A ResourceManager takes applications only for a RUNNING queue.
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
	if e.Crowded { // shown next to the state
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

// vectorOf returns a queue's limit or guarantee in a partition.
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

// counted returns nil for YARN's values for unlimited and for invalid counts.
func counted(n *int32) *int32 {
	if n == nil || *n < 0 || *n == math.MaxInt32 {
		return nil
	}
	return n
}

// addCounts adds the counts of a queue to its parent, where the answer has no count of the parent.
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

// plus returns the sum. It caps quantities at resource.MaxQuantity, and ignores further types once
// the vector is full.
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
