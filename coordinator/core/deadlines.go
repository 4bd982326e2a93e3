package core

import (
	"container/heap"

	"github.com/bursar/bursar/coordinator/ledger"
)

// deadlines are the waiting requests whose own wait is shorter than that of their allocation:
// repeats, each with a wait of its own. It is a heap: the earliest deadline is first.
type deadlines []*Request

// notQueued is the index of a request that is not in the heap.
const notQueued = -1

func (d deadlines) Len() int           { return len(d) }
func (d deadlines) Less(i, j int) bool { return d[i].until < d[j].until }
func (d deadlines) Swap(i, j int) {
	d[i], d[j] = d[j], d[i]
	d[i].heapIndex, d[j].heapIndex = i, j
}

// Push implements heap.Interface.
func (d *deadlines) Push(x any) {
	request, _ := x.(*Request)
	request.heapIndex = len(*d)
	*d = append(*d, request)
}

// Pop implements heap.Interface.
func (d *deadlines) Pop() any {
	last := len(*d) - 1
	request := (*d)[last]
	(*d)[last] = nil
	*d = (*d)[:last]
	request.heapIndex = notQueued
	return request
}

// add adds a request that has just begun to wait, if its wait ends before that of its allocation.
func (d *deadlines) add(request *Request, now ledger.Instant) {
	request.heapIndex = notQueued
	if request.until = now.Add(request.Command.Wait); request.until < request.Result.Allocation.WaitDeadline {
		heap.Push(d, request)
	}
}

// drop removes a request that no longer waits.
func (d *deadlines) drop(request *Request) {
	if request.heapIndex != notQueued {
		heap.Remove(d, request.heapIndex)
	}
}

// advance does the due work, first in the ledger, then for the requests whose own wait is over.
func advance(c *Core, now ledger.Instant) {
	c.ledger.Advance(now)
	var spent explainBudget
	for len(c.deadlines) > 0 && c.deadlines[0].until <= now {
		request := c.deadlines[0]
		id := request.Result.Allocation.ID
		if a, live := c.ledger.Get(id); !live || a.State != ledger.Waiting {
			// it was decided: the batch of the decision answers it
			c.deadlines.drop(request)
			continue
		}
		// before removeWaiter: if it panics, the request is still a waiter and is answered with all
		// others
		c.ledger.Detach(now, id)
		c.removeWaiter(id, request)
		request.Err = c.waitExpired(request, 0, &spent)
		c.applied = append(c.applied, request)
	}
}
