package cells

import (
	"math"
	"slices"
	"time"
)

// Books count a cell's engines: a number in the simulation, or a real ledger.
type Books interface {
	// SetLimit changes the limit. Units in use stay in use, even above the limit.
	SetLimit(now time.Duration, units int)
	// Allocate grants a request, or refuses it if it does not fit into the limit now.
	Allocate(now time.Duration, r Request) bool
	// Release gives back the units granted to the request with this id.
	Release(now time.Duration, id int)
	// Used returns the sum of the granted units that were not given back.
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

// clock runs fast or slow and is never set.
type clock struct {
	offset time.Duration
	speed  float64 // 1: true time
}

func (c clock) at(now time.Duration) time.Duration {
	return c.offset + time.Duration(float64(now)*c.speed)
}

// engine runs until its own end or the end of its lease, even while its coordinator is down.
type engine struct {
	Request
	ends time.Duration // in true time
}

// Cell is one coordinator. It stores its waiting requests, its engines and the number of its last
// question, but not its share and its lease.
type Cell struct {
	name  int
	books Books
	clock clock
	lease time.Duration // by its own clock
	stops bool

	downUntil time.Duration // in true time
	share     int
	ends      time.Duration // of the lease, by its own clock
	limit     int           // the limit in the books

	number   int
	asked    time.Duration // the time of its last question, by its own clock
	answered bool
	came     int // units of the requests that have arrived since then

	waiting []Request
	running []engine
	granted func(now time.Duration, cell int, r Request)
}

// A cell asks again after refresh, or after patience if there was no answer.
const (
	refresh  = 5 * time.Second
	patience = 10 * time.Second
)

// has returns the units that the cell may have in use before it gets an answer.
func (c *Cell) has() int { return max(c.share, c.books.Used()) }

// Crash loses all state that is not stored. An answer in flight no longer matches a question.
func (c *Cell) Crash(until time.Duration) {
	c.downUntil, c.share, c.answered = until, 0, false
	c.number, c.asked = c.number+1, -patience
}

// Step does all due work, and returns a question if the cell asks one. A cell that never asks keeps
// its share for ever.
func (c *Cell) Step(now time.Duration, asks bool) (Question, bool) {
	local := c.clock.at(now)
	over := asks && local >= c.ends
	if over && c.stops { // agents stop the engines even if the coordinator is down
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

// grant serves waiting requests in the order of arrival.
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

// ask gives back unneeded units and asks for missing ones.
func (c *Cell) ask(local time.Duration) Question {
	q := Question{Cell: c.name, Number: c.number + 1, Used: c.books.Used(), Reserve: c.came + largest}
	q.Needs = q.Used + c.needs()
	c.share = min(c.share, q.Needs+q.Reserve)
	q.Has = c.has()
	c.number, c.asked, c.answered, c.came = q.Number, local, false, 0
	return q
}

// Take accepts an answer to the latest question, unless the lease has already ended.
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

// inUse returns the units of the engines that really run.
func (c *Cell) inUse(now time.Duration) (units int) {
	for _, e := range c.running {
		if e.ends > now {
			units += e.Units
		}
	}
	return units
}

// needs returns the units of the waiting requests.
func (c *Cell) needs() (units int) {
	for _, r := range c.waiting {
		units += r.Units
	}
	return units
}
