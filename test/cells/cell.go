package cells

import (
	"math"
	"slices"
	"time"
)

// Books are what a cell counts its engines with: a number in the simulation, or a real ledger.
type Books interface {
	// SetLimit changes the limit. What is in use stays, also above the limit.
	SetLimit(now time.Duration, units int)
	// Allocate grants a request, or refuses it if it does not fit into the limit now.
	Allocate(now time.Duration, r Request) bool
	// Release gives back what was granted to the request with this id.
	Release(now time.Duration, id int)
	// Used is the sum of what was granted and not given back.
	Used() int
}

// count is the books of a simulated cell.
type count struct {
	limit, used int
	granted     map[int]int // units by id
}

func newCount(int) Books { return &count{granted: make(map[int]int)} }

func (c *count) SetLimit(_ time.Duration, units int) { c.limit = units }
func (c *count) Used() int                           { return c.used }

func (c *count) Allocate(_ time.Duration, r Request) bool {
	if c.used+r.Units > c.limit {
		return false
	}
	c.used += r.Units
	c.granted[r.ID] = r.Units
	return true
}

func (c *count) Release(_ time.Duration, id int) {
	c.used -= c.granted[id]
	delete(c.granted, id)
}

// clock is a clock that is fast or slow. Nobody sets it.
type clock struct {
	offset time.Duration
	speed  float64 // 1: as time
}

func (c clock) at(now time.Duration) time.Duration {
	return c.offset + time.Duration(float64(now)*c.speed)
}

// engine runs until it ends by itself or its lease does, also while its coordinator is away.
type engine struct {
	Request
	ends time.Duration // by true time
}

// Cell is one coordinator. Its waiting requests, its engines and the number of its last question
// are stored; its share and its lease are not.
type Cell struct {
	name  int
	books Books
	clock clock
	lease time.Duration // by its own clock
	stops bool

	downUntil time.Duration // by true time
	share     int
	ends      time.Duration // of the lease, by its own clock
	limit     int           // what the books have as their limit

	number   int
	asked    time.Duration // when it last asked, by its own clock
	answered bool
	came     int // units of the requests that came since then

	waiting []Request
	running []engine
	granted func(now time.Duration, cell int, r Request)
}

// A cell asks again after refresh, or after patience if there was no answer.
const (
	refresh  = 5 * time.Second
	patience = 10 * time.Second
)

// has is what the cell may have in use before it gets an answer.
func (c *Cell) has() int { return max(c.share, c.books.Used()) }

// Crash loses what is not stored. An answer that is under way is to a question of nobody's.
func (c *Cell) Crash(until time.Duration) {
	c.downUntil, c.share, c.answered = until, 0, false
	c.number, c.asked = c.number+1, -patience
}

// Step does what is due, and returns a question if the cell asks one. A cell that never asks has
// its share for ever.
func (c *Cell) Step(now time.Duration, asks bool) (Question, bool) {
	local := c.clock.at(now)
	over := asks && local >= c.ends
	if over && c.stops { // the agents see to it, whether the coordinator is there or not
		for i := range c.running {
			c.running[i].ends = min(c.running[i].ends, now)
		}
	}
	if now < c.downUntil {
		return Question{}, false
	}
	c.release(now)
	if over {
		c.share = 0
	}
	c.setLimit(now)
	c.grant(now)
	since := patience
	if c.answered {
		since = refresh
	}
	if !asks || local < c.asked+since {
		return Question{}, false
	}
	return c.ask(local), true
}

func (c *Cell) release(now time.Duration) {
	if !slices.ContainsFunc(c.running, func(e engine) bool { return e.ends <= now }) {
		return
	}
	kept := c.running[:0]
	for _, e := range c.running {
		if e.ends <= now {
			c.books.Release(now, e.ID)
		} else {
			kept = append(kept, e)
		}
	}
	c.running = kept
}

func (c *Cell) setLimit(now time.Duration) {
	if c.limit != c.share {
		c.limit = c.share
		c.books.SetLimit(now, c.limit)
	}
}

// grant serves waiting requests in the order in which they came.
func (c *Cell) grant(now time.Duration) {
	for len(c.waiting) > 0 {
		r := c.waiting[0]
		switch {
		case r.GivesUp <= now:
		case c.books.Allocate(now, r):
			c.running = append(c.running, engine{r, now + r.Life})
			c.granted(now, c.name, r)
		default:
			return
		}
		c.waiting = c.waiting[1:]
	}
}

// ask gives back what the cell does not need, and asks for what it lacks.
func (c *Cell) ask(local time.Duration) Question {
	q := Question{Cell: c.name, Number: c.number + 1, Used: c.books.Used(), Reserve: c.came + largest}
	q.Needs = q.Used + c.needs()
	c.share = min(c.share, q.Needs+q.Reserve)
	q.Has = c.has()
	c.number, c.asked, c.answered, c.came = q.Number, local, false, 0
	return q
}

// Take takes an answer, if it is to the latest question and its lease has not ended on the way.
func (c *Cell) Take(now time.Duration, a Answer) {
	if now < c.downUntil || a.Number != c.number || c.answered {
		return
	}
	if ends := c.asked + c.lease; ends > c.clock.at(now) {
		c.share, c.ends, c.answered = max(a.Share, c.books.Used()), ends, true
		c.setLimit(now)
	}
}

// fix gives the cell a share for ever.
func (c *Cell) fix(share int) {
	c.share, c.ends = share, math.MaxInt64
	c.setLimit(0)
}

// inUse is what really runs.
func (c *Cell) inUse(now time.Duration) (units int) {
	for _, e := range c.running {
		if e.ends > now {
			units += e.Units
		}
	}
	return units
}

// needs is what waits.
func (c *Cell) needs() (units int) {
	for _, r := range c.waiting {
		units += r.Units
	}
	return units
}
