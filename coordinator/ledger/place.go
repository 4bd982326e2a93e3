package ledger

import "iter"

// mostPlaced bounds how many requests are looked at to find the place of one in its queue. One
// takes some 10 ns, so that a place takes less than a tenth of a millisecond. Half of them are for
// the requests of its own group. Groups and classes are looked at as evenly as their members.
const mostPlaced = 4096

// place is how many requests of the queue go before e. If many wait, it looks at an even sample of
// them, and the place is an estimate.
func (q *queue) place(e *entry) int {
	own, others := e.class.group, q.groups.items
	before, looked := 0, 0
	each := mostPlaced / 2 / min(len(others), mostPlaced/16)
	for i := range sample(len(others), mostPlaced/16, 0) {
		if g := others[i]; g != own {
			before += g.goBefore(e, each, looked)
			looked++
		}
	}
	if looked > 0 {
		before = before * (len(others) - 1) / looked
	}
	if before += own.goBefore(e, mostPlaced/2, 0); before == 0 && q.first() != e {
		return 1
	}
	return min(before, q.waiting-1)
}

// goBefore is how many requests of the group go before e; if it has more than so many, by a sample
// of these.
func (g *group) goBefore(e *entry, most, round int) int {
	classes := g.classes.items
	before, looked := 0, 0
	each := max(1, most/len(classes))
	for i := range sample(len(classes), most, round) {
		before += classes[i].goBefore(e, each, round+looked)
		looked++
	}
	return (before*len(classes) + looked/2) / looked
}

// goBefore is how many requests of the class go before e: all or none, if not by arrival.
func (c *class) goBefore(e *entry, most, round int) int {
	members, mine := c.members.items, e.class
	switch own, other := mine.group.share.value, c.group.share.value; {
	case c.priority != mine.priority:
		if c.priority < mine.priority {
			return 0
		}
		return len(members)
	case c.group != mine.group && other != own:
		if other > own {
			return 0
		}
		return len(members)
	}
	before, looked := 0, 0
	for i := range sample(len(members), most, round) {
		if members[i].ID < e.ID {
			before++
		}
		looked++
	}
	return (before*len(members) + looked/2) / looked
}

// sample yields indices below n at even distances, at most so many. Those of one round are between
// those of another: what is first in one list is not looked at in every list.
func sample(n, most, round int) iter.Seq[int] {
	return func(yield func(int) bool) {
		stride := max(1, (n+most-1)/most)
		for i := round % stride; i < n; i += stride {
			if !yield(i) {
				return
			}
		}
	}
}
