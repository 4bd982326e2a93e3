package yarn

import (
	"fmt"

	"github.com/bursar/bursar/providers"
	"github.com/bursar/bursar/resource"
)

// A cluster may grow to the size in the setting growsTo, which is for the default partition. The
// limits of its queues then change as follows:
//
//   - a share of the cluster grows with it; an absolute maximum of the CapacityScheduler stays
//   - the FairScheduler's answer does not distinguish a maximum from the size of the cluster, nor a
//     share from an amount: a limit that equals the whole cluster grows with it, any other stays
//   - no queue becomes larger than its parent
//   - a user's limit follows from the queue's guarantee, as without growth
//
// The largest container and the limits of masters do not grow here. The first is configuration, and
// the second never stops a request for good.

// addGrowth sets the future limits of queues.
func (s *Scheduler) addGrowth(queues []providers.Queue) {
	to := s.Assume.GrowsTo
	if to.IsUnset() {
		return
	}
	rows := make(map[string]resource.Vector, len(queues)) // by path; parents come first
	for i := range queues {
		q, e := &queues[i], &s.Entries[i]
		if q.Partition != "" {
			continue
		}
		limit := s.grown(q, q.Limit, e.ConfiguredLimit, e.AbsoluteMaxCapacity)
		above, below := rows[q.Parent]
		for dimension, n := range limit.All() {
			if most, limited := above.Get(dimension); below && limited {
				limit = limit.With(dimension, min(n, most))
			}
		}
		rows[q.Path] = limit
		if q.MayGrow = beyond(limit, q.Limit); q.MayGrow.IsUnset() {
			continue
		}
		if e.UserFactor != nil && !e.LeavesOnly {
			promised := s.grown(q, q.Guaranteed, e.ConfiguredGuarantee, e.AbsoluteCapacity)
			users := userCap(promised, limit, *e.UserFactor, s.Assume.Container)
			for dimension := range users.All() {
				if !q.UserLimit.Has(dimension) {
					users = users.Without(dimension)
				}
			}
			q.UsersMayGrow = beyond(users, q.UserLimit)
		}
	}
}

// outgrown returns a warning if the cluster is already larger than growsTo; empty if not.
func (s *Scheduler) outgrown(queues []providers.Queue) string {
	for i := range queues {
		if q := &queues[i]; q.Parent == "" && q.Partition == "" {
			for dimension, most := range s.Assume.GrowsTo.All() {
				if n, limited := q.Limit.Get(dimension); limited && n > most {
					return fmt.Sprintf("the cluster is larger than %s=%s", settingGrowsTo, s.Assume.GrowsTo)
				}
			}
		}
	}
	return ""
}

// grown returns a limit or guarantee of a queue after the growth of the cluster, in the dimensions
// of today.
func (s *Scheduler) grown(q *providers.Queue, today resource.Vector, configured *resource.Vector, percent *float64) resource.Vector {
	after := today
	for dimension, n := range today.All() {
		most, grows := s.Assume.GrowsTo.Get(dimension)
		if !grows {
			continue
		}
		switch fixed := configuredOf(configured, dimension); {
		case q.Parent == "":
			n = most
		case fixed > 0:
			n = max(n, fixed)
		case s.Kind == CapacityScheduler && percent != nil:
			n = get(share(*percent, resource.Vector{}.With(dimension, most)), dimension)
		case s.Kind != CapacityScheduler && n >= get(s.Totals[""], dimension):
			n = most
		}
		after = after.With(dimension, max(n, get(today, dimension)))
	}
	return after
}

// configuredOf returns the configured absolute amount; 0 if there is none.
func configuredOf(configured *resource.Vector, dimension string) int64 {
	if configured == nil {
		return 0
	}
	return get(*configured, dimension)
}

// beyond returns the quantities of v that are larger than those of than.
func beyond(v, than resource.Vector) (more resource.Vector) {
	for dimension, n := range v.All() {
		if before, limited := than.Get(dimension); limited && n > before {
			more = more.With(dimension, n)
		}
	}
	return more
}

func get(v resource.Vector, dimension string) int64 {
	n, _ := v.Get(dimension)
	return n
}
