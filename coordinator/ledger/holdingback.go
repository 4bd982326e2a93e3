package ledger

import (
	"fmt"

	"github.com/bursar/bursar/resource"
)

// # What a cluster does with its queues
//
// A cluster may grow: an operator or an autoscaler adds machines. Then a request that is larger
// than its queue is today need not be too large for good. Between today's limit and what that may
// become it waits. Nothing is held for it meanwhile: what others give back does not help. What is
// granted goes by today's limit alone.
//
// A cluster may hold applications back although their queue has room for them, such as one for
// which no machine has enough in one piece. That is shown. If the cluster's settings say so,
// nothing new is granted there until it starts them.

// mayGrowTo is what the limit of an account may become; 0: it does not grow.
func (a *account) mayGrowTo(dimension string) int64 {
	if q := a.queue.clusterQueue; q != nil {
		return get(q.mayGrow(), dimension)
	}
	return 0
}

// mayGrow is what the limit of the queue, or of what a user may have in it, may become.
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

// heldBack is what the cluster holds back in the queue.
func (q *clusterQueue) heldBack() HeldBack {
	if q.report.Details == nil {
		return HeldBack{}
	}
	return q.report.Details.HeldBack
}

// awaitsStarts reports whether nothing is granted in this very queue until the cluster starts what
// waits there.
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
