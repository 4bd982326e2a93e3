package core

import (
	"container/heap"

	"github.com/bursar/bursar/coordinator/ledger"
)

// leaving are the asks on the line that want to wait for less time than what they wait for: repeats, each with a wait of its own. Who comes
// first to the end of it stands first.
type leaving []*Ask

// notLeaving is an ask's place where it is not among them.
const notLeaving = -1

func (l leaving) Len() int           { return len(l) }
func (l leaving) Less(i, j int) bool { return l[i].until < l[j].until }
func (l leaving) Swap(i, j int) {
	l[i], l[j] = l[j], l[i]
	l[i].place, l[j].place = i, j
}

// Push is heap.Interface's.
func (l *leaving) Push(x any) {
	ask, _ := x.(*Ask)
	ask.place = len(*l)
	*l = append(*l, ask)
}

// Pop is heap.Interface's.
func (l *leaving) Pop() any {
	last := len(*l) - 1
	ask := (*l)[last]
	(*l)[last] = nil
	*l = (*l)[:last]
	ask.place = notLeaving
	return ask
}

// add takes in an ask that has just come on the line, if its wait is over before that of its allocation.
func (l *leaving) add(ask *Ask, now ledger.Instant) {
	ask.place = notLeaving
	if ask.until = now.Add(ask.Command.Wait); ask.until < ask.Result.Allocation.WaitDeadline {
		heap.Push(l, ask)
	}
}

// drop takes out an ask that comes off the line.
func (l *leaving) drop(ask *Ask) {
	if ask.place != notLeaving {
		heap.Remove(l, ask.place)
	}
}

// lapse does what is due: first in the ledger, then for the asks whose own wait is over.
func lapse(c *Core, now ledger.Instant) {
	c.ledger.Advance(now)
	var spent explaining
	for len(c.leaving) > 0 && c.leaving[0].until <= now {
		ask := c.leaving[0]
		id := ask.Result.Allocation.ID
		if a, live := c.ledger.Get(id); !live || a.State != ledger.Waiting {
			c.leaving.drop(ask) // it has been decided: it is answered with the batch that says so
			continue
		}
		c.ledger.Detach(now, id) // first: should it panic, the ask is still on the line, and is answered with all others
		c.hangUp(id, ask)
		ask.Err = c.waited(ask, &spent)
		c.open = append(c.open, ask)
	}
}
