package cells

import "time"

// Question is a message from a cell to the owner. Quantities are in units of the limit.
type Question struct {
	Cell int
	// Number increases with each question of a cell, even across crashes.
	Number int
	// Has is the cell's share. The cell does not raise it before it has an answer.
	Has int
	// Used is the use of its engines. Needs adds the units of its waiting requests.
	Used, Needs int
	// Reserve is the number of units that it wants for future requests.
	Reserve int
}

// Answer is a new share. It may be smaller than the cell's present share.
type Answer struct {
	Cell, Number int
	Share        int
}

// Owner leases shares of one limit. It stores all its state before it answers.
type Owner struct {
	limit int
	// safe is how long the owner waits, by its own clock, until a lease has ended everywhere.
	safe  time.Duration
	stops bool
	cells []account

	least, most []int // by cell, for the present question; see fill
}

// account is the owner's state about one cell.
type account struct {
	counted  int // an upper bound of the units in use there
	question Question
	ends     time.Duration // of the lease, by the owner's clock
	over     bool          // the lease has ended everywhere
}

// NewOwner returns the owner of a limit for a number of cells. After safe, an ended lease may be
// given to another cell.
func NewOwner(limit, cells int, safe time.Duration, stops bool) *Owner {
	return &Owner{limit: limit, safe: safe, stops: stops, cells: make([]account, cells)}
}

// Answer answers a question, unless it has already read this one or a later one of that cell.
func (o *Owner) Answer(now time.Duration, q Question) (Answer, bool) {
	c := &o.cells[q.Cell]
	if q.Number <= c.question.Number {
		return Answer{}, false
	}
	c.question = q
	c.counted = min(c.counted, q.Has)
	wants, level := o.level(q)
	share := min(max(q.Used, min(wants, level)), c.counted+o.free())
	c.counted = max(c.counted, share) // the cell keeps its units until the answer arrives
	c.ends, c.over = now+o.safe, false
	return Answer{Cell: q.Cell, Number: q.Number, Share: share}, true
}

// level returns the units that the cell wants, and the common level: the share of every cell that
// wants more than the level. If the needs of all cells exceed the limit, no cell has a reserve.
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
	return wants, low + 1 // one above the level while a rest remains
}

// fill computes each cell's minimum and its wish. For a cell whose lease is over, both are the
// counted units.
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

// sum returns the total of the shares if the level caps every cell, except for units in use.
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

// Expire ends leases. If engines are stopped with their lease, the shares are free again. Otherwise
// they are counted until the cell asks again or an operator gives it up.
func (o *Owner) Expire(now time.Duration) {
	for i := range o.cells {
		c := &o.cells[i]
		if c.over = now >= c.ends; c.over && o.stops {
			c.counted = 0
		}
	}
}

// GiveUp is an operator's statement that nothing runs in a cell any more. It is refused while the
// cell may still have a lease.
func (o *Owner) GiveUp(cell int) bool {
	if c := &o.cells[cell]; c.over {
		c.counted = 0
	}
	return o.cells[cell].over
}

// Restart resets an owner that was down for an unknown time: all leases count from now.
func (o *Owner) Restart(now time.Duration) {
	for i := range o.cells {
		if c := &o.cells[i]; !c.over {
			c.ends = now + o.safe
		}
	}
}
