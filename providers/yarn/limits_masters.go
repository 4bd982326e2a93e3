package yarn

import (
	"github.com/bursar/bursar/providers"
	"github.com/bursar/bursar/resource"
)

// usualContainer is YARN's default for the smallest container.
const usualContainer = 1 << 30

// capacityAMLimit returns the limit for masters in a queue of the CapacityScheduler; nil: unknown.
// The answer has the limit at the last start or end of an application in that queue, and YARN
// computes it again at the next one. The limit is a share of the queue's guarantee, or of the
// amount that its siblings and the queues above leave to it if that is more. If this share is less
// than the answer's limit, it is the limit. If it is more, YARN may not use it yet: then the result
// is the answer's limit, and estimated is true.
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
		// While the smallest container is unknown, the answer's limit may be larger because of
		// YARN's rounding.
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

// leftTo returns what each queue may use in the default partition, by path: its maximum, or what
// its parent may use minus the use of the siblings if that is less.
func leftTo(queues []providers.Queue) map[string]resource.Vector {
	left := make(map[string]resource.Vector)
	used := make(map[string]resource.Vector)
	for i := range queues { // a parent comes before its children
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
