package core

import (
	"container/heap"

	"github.com/bursar/bursar/coordinator/ledger"
)

// deadlines are the waiting requests that want to wait for less time than what they wait for: repeats, each with a wait of its own. Who comes
// first to the end of it stands first.
type deadlines []*Request

// notLeaving is an ask's place where it is not among them.
const notLeaving = -1

func (l deadlines) Len() int           { return len(l) }
func (l deadlines) Less(i, j int) bool { return l[i].until < l[j].until }
func (l deadlines) Swap(i, j int) {
	l[i], l[j] = l[j], l[i]
	l[i].place, l[j].place = i, j
}

// Push is heap.Interface's.
func (l *deadlines) Push(x any) {
	ask, _ := x.(*Request)
	ask.place = len(*l)
	*l = append(*l, ask)
}

// Pop is heap.Interface's.
func (l *deadlines) Pop() any {
	last := len(*l) - 1
	ask := (*l)[last]
	(*l)[last] = nil
	*l = (*l)[:last]
	ask.place = notLeaving
	return ask
}

// add takes in a request that has just begun to wait, if its wait is over before that of its allocation.
func (l *deadlines) add(ask *Request, now ledger.Instant) {
	ask.place = notLeaving
	if ask.until = now.Add(ask.Command.Wait); ask.until < ask.Result.Allocation.WaitDeadline {
		heap.Push(l, ask)
	}
}

// drop takes out a request that waits no more.
func (l *deadlines) drop(ask *Request) {
	if ask.place != notLeaving {
		heap.Remove(l, ask.place)
	}
}

// advance does what is due: first in the ledger, then for the requests whose own wait is over.
func advance(c *Core, now ledger.Instant) {
	c.ledger.Advance(now)
	var spent explaining
	for len(c.deadlines) > 0 && c.deadlines[0].until <= now {
		ask := c.deadlines[0]
		id := ask.Result.Allocation.ID
		if a, live := c.ledger.Get(id); !live || a.State != ledger.Waiting {
			c.deadlines.drop(ask) // it has been decided: it is answered with the batch that says so
			continue
		}
		c.ledger.Detach(now, id) // first: should it panic, the request still waits, and is answered with all others
		c.removeWaiter(id, ask)
		ask.Err = c.waited(ask, &spent)
		c.applied = append(c.applied, ask)
	}
}
