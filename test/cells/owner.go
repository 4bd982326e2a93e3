package cells

import "time"

// Question is what a cell tells the owner. Quantities are in units of the limit.
type Question struct {
	Cell int
	// Number rises with each question of a cell, over its crashes as well.
	Number int
	// Has is the cell's share. The cell does not raise it before it has an answer.
	Has int
	// Used is what its engines use, and Needs that and what its waiting requests ask for.
	Used, Needs int
	// Reserve is what it would like to have for requests that have not come yet.
	Reserve int
}

// Answer is a new share. It may be smaller than what the cell has.
type Answer struct {
	Cell, Number int
	Share        int
}

// Owner leases shares of one limit. All that it knows is stored before it answers.
type Owner struct {
	limit int
	// safe is how long the owner waits, by its own clock, until a lease has ended everywhere.
	safe  time.Duration
	stops bool
	cells []account

	least, most []int // by cell, of the present question; see fill
}

// account is what the owner knows of one cell.
type account struct {
	counted  int // no more than this can be in use there
	question Question
	ends     time.Duration // of the lease, by the owner's clock
	over     bool          // it has ended everywhere
}

// NewOwner returns the owner of a limit over so many cells. A lease is safe to give again after
// that time.
func NewOwner(limit, cells int, safe time.Duration, stops bool) *Owner {
	return &Owner{limit: limit, safe: safe, stops: stops, cells: make([]account, cells)}
}

// Answer answers a question, unless it has read a later one of that cell, or the same.
func (o *Owner) Answer(now time.Duration, q Question) (Answer, bool) {
	c := &o.cells[q.Cell]
	if q.Number <= c.question.Number {
		return Answer{}, false
	}
	c.question = q
	c.counted = min(c.counted, q.Has)
	wants, level := o.level(q)
	share := min(max(q.Used, min(wants, level)), c.counted+o.free())
	c.counted = max(c.counted, share) // until the answer is there the cell uses what it has
	c.ends, c.over = now+o.safe, false
	return Answer{Cell: q.Cell, Number: q.Number, Share: share}, true
}

// level returns what the cell wants, and how much a cell may have that has less than it wants: the
// same for all cells. If all together need more than there is, nobody has a reserve.
func (o *Owner) level(q Question) (wants, level int) {
	wants = q.Needs + q.Reserve
	if o.fill(true); o.sum(o.limit) <= o.limit {
		return wants, o.limit
	}
	if o.fill(false); o.sum(o.limit) > o.limit {
		wants = q.Needs
	} else {
		o.fill(true)
	}
	low, high := 0, o.limit
	for low < high {
		if middle := (low + high + 1) / 2; o.sum(middle) <= o.limit {
			low = middle
		} else {
			high = middle - 1
		}
	}
	return wants, low + 1 // one more than the level, as long as there is a rest
}

// fill notes what each cell has at least and wants at most. What is counted for a cell that does
// not answer stays where it is.
func (o *Owner) fill(reserve bool) {
	least, most := o.least[:0], o.most[:0]
	for i := range o.cells {
		c := &o.cells[i]
		uses, wants := c.question.Used, c.question.Needs
		if reserve {
			wants += c.question.Reserve
		}
		if c.over {
			uses, wants = c.counted, c.counted
		}
		least, most = append(least, uses), append(most, wants)
	}
	o.least, o.most = least, most
}

// sum is what cells have together if nobody has more than level, except what is in use.
func (o *Owner) sum(level int) (sum int) {
	for i, least := range o.least {
		sum += max(least, min(o.most[i], level))
	}
	return sum
}

func (o *Owner) free() int {
	free := o.limit
	for i := range o.cells {
		free -= o.cells[i].counted
	}
	return free
}

// Expire ends leases. If engines are stopped with their lease, the shares are free again.
// Otherwise they are counted until the cell asks again, or the operator gives it up.
func (o *Owner) Expire(now time.Duration) {
	for i := range o.cells {
		c := &o.cells[i]
		if c.over = now >= c.ends; c.over && o.stops {
			c.counted = 0
		}
	}
}

// GiveUp is an operator's word that nothing runs in a cell any more. It is refused while the
// cell may still have a lease.
func (o *Owner) GiveUp(cell int) bool {
	if c := &o.cells[cell]; c.over {
		c.counted = 0
	}
	return o.cells[cell].over
}

// Restart is what an owner does that was away: it does not know for how long, so that all leases
// count from now.
func (o *Owner) Restart(now time.Duration) {
	for i := range o.cells {
		if c := &o.cells[i]; !c.over {
			c.ends = now + o.safe
		}
	}
}
