package yarn

import (
	"github.com/bursar/bursar/providers"
	"github.com/bursar/bursar/resource"
)

// usualContainer is the smallest container if nothing is configured in YARN.
const usualContainer = 1 << 30

// capacityAMLimit is what masters may have in a queue of the CapacityScheduler; nil: it is not
// known. What the answer says is of when an application came or went last in that queue. YARN
// computes it again when the next one comes. It is a share of what the queue is promised, or of
// what the queues next to it and above leave to it, if that is more. If this share is less than
// what the answer says, it is the limit. If it is more, YARN may not use it yet: then the limit is
// what the answer says, and estimated is true.
func (s *Scheduler) capacityAMLimit(q *providers.Queue, e *Entry, left map[string]resource.Vector, by Calculator) (limit *resource.Vector, estimated bool) {
	current, known := left[q.Path]
	if e.AMLimit == nil || e.AMPercent == nil || q.Partition != "" || !known {
		return e.AMLimit, false
	}
	usable := current
	if current.Memory() < q.Guaranteed.Memory() || by != CalculatorDefault && current.CPU() < q.Guaranteed.CPU() {
		usable = q.Guaranteed
	}
	now := portion(*e.AMPercent/100, usable, s.Assume.Container, by)
	least := *e.AMLimit
	for _, dimension := range containerDimensions {
		told, says := least.Get(dimension)
		n, limited := now.Get(dimension)
		if !says || !limited || dimension == resource.CPU && by != CalculatorDominant {
			continue
		}
		// As long as the smallest container is not known, the answer may be larger by what YARN
		// rounded up.
		rounded, rounds := int64(0), s.Assume.Container.Has(dimension)
		if !rounds {
			rounded = map[string]int64{resource.Memory: usualContainer, resource.CPU: core}[dimension]
		}
		if told-n >= max(1, rounded) {
			least = least.With(dimension, n)
		}
		step, _ := s.Assume.Container.Get(dimension)
		estimated = estimated || n-told > max(step, unitOf(dimension))
	}
	return &least, estimated
}

// leftTo is what each queue may use, by path, in the default partition: the least of its maximum
// and of what the queue above may use without what others have there.
func leftTo(queues []providers.Queue) map[string]resource.Vector {
	left := make(map[string]resource.Vector)
	used := make(map[string]resource.Vector)
	for i := range queues { // a queue comes after the one above
		q := &queues[i]
		if q.Partition != "" {
			continue
		}
		above, there := left[q.Parent]
		if q.Parent != "" && !there {
			continue
		}
		most := q.Limit
		for _, dimension := range containerDimensions {
			n, limited := above.Get(dimension)
			if !limited {
				continue
			}
			all, _ := used[q.Parent].Get(dimension)
			own, _ := q.Used.Get(dimension)
			n = max(0, n-max(0, all-own))
			if own, is := most.Get(dimension); !is || n < own {
				most = most.With(dimension, n)
			}
		}
		left[q.Path], used[q.Path] = most, q.Used
	}
	return left
}
