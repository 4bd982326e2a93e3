package ledger

import (
	"fmt"

	"github.com/bursar/bursar/resource"
)

// # Clusters that grow, and clusters that hold applications back
//
// A cluster may grow: an operator or an autoscaler adds machines. Then a request that is larger
// than its queue is today need not be too large for good. It waits if it is between today's limit
// and the limit that the queue may get. Nothing is held for it meanwhile, because resources that
// others give back do not help. Grants go by today's limit alone.
//
// A cluster may hold applications back although their queue has room for them, such as one for
// which no machine has enough in one piece. The ledger shows that. If the cluster's settings say
// so, the queue gets no new grants until the cluster starts them.

// mayGrowTo returns the limit that an account may get; 0: it does not grow.
func (a *account) mayGrowTo(dimension string) int64 {
	if q := a.queue.clusterQueue; q != nil {
		return get(q.mayGrow(), dimension)
	}
	return 0
}

// mayGrow returns the limit that the queue, or a user's part of it, may get.
func (q *clusterQueue) mayGrow() resource.Vector {
	switch {
	case q.of != nil && q.of.queue.report.Details != nil:
		return q.of.queue.report.Details.UsersMayGrow
	case q.of == nil && q.report.Details != nil:
		return q.report.Details.MayGrow
	}
	return resource.Vector{}
}

// couldGrowTo reports whether the limit of the queue is enough for a request, or may become so.
func (q *clusterQueue) couldGrowTo(request resource.Vector) bool {
	for dimension, asked := range request.All() {
		if asked > q.account.mostOf(dimension) && asked > q.account.mayGrowTo(dimension) {
			return false
		}
	}
	return true
}

// heldBack returns the report of applications that the cluster holds back in the queue.
func (q *clusterQueue) heldBack() HeldBack {
	if q.report.Details == nil {
		return HeldBack{}
	}
	return q.report.Details.HeldBack
}

// awaitsStarts reports whether this queue itself gets no grants until the cluster starts its
// waiting applications.
func (q *clusterQueue) awaitsStarts() bool {
	return q.known && q.cluster.terms.AwaitStarts && q.heldBack().Applications > 0
}

// String says how many are held back, and why.
func (h HeldBack) String() string {
	text := fmt.Sprintf("its cluster holds back %d applications although there is room", h.Applications)
	if h.Applications == 1 {
		text = "its cluster holds back 1 application although there is room"
	}
	return withReason(text, h.Reason)
}
