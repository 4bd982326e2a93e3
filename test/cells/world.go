package cells

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// Config describes a world. The unit of time is a second.
type Config struct {
	Cells, Limit int
	// Sources is the number of cells in the demand; 0: the real number. With one cell and many
	// sources, that cell has all of the demand.
	Sources int
	Demand  float64 // the use if all is granted, as a fraction of the limit
	Pattern Pattern
	Seed    uint64
	// Split divides the limit once and for all. Cells then ask no questions.
	Split bool
	// Lease is how long a share lasts without another answer.
	Lease time.Duration
	// Stops says that engines are stopped when the lease of their cell ends. Otherwise their units
	// are counted until the cell asks again.
	Stops bool
	// Drift is the largest relative error of a clock's speed. Margin is the owner's allowance for
	// it.
	Drift, Margin float64
	// Faults is the number of crashes, and of partitions from the owner, per cell and hour; each
	// lasts up to 10 minutes. One in 100 messages is then lost, and one in 100 is repeated.
	Faults float64
	// Books makes the books of a cell. Nil: numbers.
	Books func(cell int) Books
	// Granted is called for each grant, unless it is nil.
	Granted func(now time.Duration, cell int, r Request)
}

// World is a fleet of cells with their owner.
type World struct {
	cfg    Config
	now    time.Duration
	random *rand.Rand // for everything but the demand
	demand *demand
	owner  *Owner
	clock  clock // of the owner
	cells  []*Cell

	ownerDownUntil time.Duration
	partedUntil    []time.Duration
	messages       []message
	inUse          []int // the real use of each cell
	figures        Figures
}

// message is in flight: a question if answer.Number is 0.
type message struct {
	arrives  time.Duration
	question Question
	answer   Answer
}

// Figures are sums over seconds since the last Reset.
type Figures struct {
	seconds, used, stranded float64
	worst                   float64
	grants                  int
	waited                  time.Duration
	messages                int
	limit                   float64
}

// Used returns the average use, as a fraction of the limit.
func (f *Figures) Used() float64 { return f.used / f.seconds / f.limit }

// Stranded returns the average of the units that are idle in some cells while requests in others
// lack them, as a fraction of the limit.
func (f *Figures) Stranded() float64 { return f.stranded / f.seconds / f.limit }

// WorstStranded returns the maximum of the stranded units, as a fraction of the limit.
func (f *Figures) WorstStranded() float64 { return f.worst / f.limit }

// Waited returns the average waiting time of a granted request.
func (f *Figures) Waited() time.Duration { return f.waited / time.Duration(max(1, f.grants)) }

// MessagesPerSecond counts questions and answers.
func (f *Figures) MessagesPerSecond() float64 { return float64(f.messages) / f.seconds }

// NewWorld makes a world.
func NewWorld(cfg Config) *World {
	if cfg.Books == nil {
		cfg.Books = newCount
	}
	if cfg.Sources == 0 {
		cfg.Sources = cfg.Cells
	}
	w := &World{
		cfg: cfg, random: rand.New(rand.NewPCG(cfg.Seed, 2)),
		demand:      newDemand(cfg.Seed, cfg.Pattern, cfg.Sources, cfg.Demand*float64(cfg.Limit)),
		partedUntil: make([]time.Duration, cfg.Cells),
		inUse:       make([]int, cfg.Cells),
	}
	w.clock = w.newClock()
	w.owner = NewOwner(cfg.Limit, cfg.Cells, time.Duration(float64(cfg.Lease)*(1+cfg.Margin)/(1-cfg.Margin)), cfg.Stops)
	w.Reset()
	for i := range cfg.Cells {
		c := &Cell{name: i, books: cfg.Books(i), clock: w.newClock(), lease: cfg.Lease, stops: cfg.Stops, asked: -patience, granted: w.granted}
		if w.cells = append(w.cells, c); cfg.Split {
			c.fix(cfg.Limit / cfg.Cells)
			w.owner.cells[i].counted = c.share
		}
	}
	return w
}

func (w *World) newClock() clock {
	return clock{time.Duration(w.random.Int64N(int64(time.Hour))), 1 + w.cfg.Drift*(2*w.random.Float64()-1)}
}

// Reset restarts the figures.
func (w *World) Reset() { w.figures = Figures{limit: float64(w.cfg.Limit)} }

// Figures returns the figures since Reset.
func (w *World) Figures() *Figures { return &w.figures }

// Step advances by one second. The error is a broken rule.
func (w *World) Step() error {
	w.now += time.Second
	w.breakThings()
	w.deliver()
	if !w.cfg.Split && w.now >= w.ownerDownUntil {
		w.owner.Expire(w.clock.at(w.now))
	}
	w.demand.next(w.now, func(source int, r Request) {
		c := w.cells[source%len(w.cells)]
		c.waiting, c.came = append(c.waiting, r), c.came+r.Units
	})
	for _, c := range w.cells {
		if q, asks := c.Step(w.now, !w.cfg.Split); asks {
			w.send(message{question: q})
		}
	}
	for i, c := range w.cells {
		w.inUse[i] = c.inUse(w.now)
	}
	w.measure()
	return w.check()
}

// breakThings draws crashes and partitions. The owner fails like a cell.
func (w *World) breakThings() {
	if w.cfg.Faults == 0 {
		return
	}
	happens := func() bool { return w.random.Float64() < w.cfg.Faults/3600 }
	until := func() time.Duration { return w.now + time.Duration(1+w.random.IntN(600))*time.Second }
	for i, c := range w.cells {
		if happens() && w.now >= c.downUntil {
			c.Crash(until())
		}
		if happens() {
			w.partedUntil[i] = until()
		}
	}
	if w.now == w.ownerDownUntil {
		w.owner.Restart(w.clock.at(w.now))
	}
	if happens() && w.now > w.ownerDownUntil {
		w.ownerDownUntil = until()
	}
}

// send sends a message, which takes up to 2 seconds.
func (w *World) send(m message) {
	w.figures.messages++
	copies := 1
	if w.cfg.Faults > 0 {
		switch w.random.IntN(100) {
		case 0:
			copies = 0
		case 1:
			copies = 2
		}
	}
	for range copies {
		m.arrives = w.now + time.Duration(w.random.IntN(3))*time.Second
		if w.cfg.Faults > 0 && w.random.IntN(100) == 0 {
			m.arrives += time.Duration(w.random.IntN(300)) * time.Second // it is stuck somewhere
		}
		w.messages = append(w.messages, m)
	}
}

func (w *World) deliver() {
	var here []message
	w.messages = slices.DeleteFunc(w.messages, func(m message) bool {
		if m.arrives <= w.now {
			here = append(here, m)
			return true
		}
		return false
	})
	for _, m := range here {
		switch cell := m.question.Cell + m.answer.Cell; { // one of them is zero
		case w.now < w.partedUntil[cell]:
		case m.answer.Number > 0:
			w.cells[cell].Take(w.now, m.answer)
		case w.now >= w.ownerDownUntil:
			if a, is := w.owner.Answer(w.clock.at(w.now), m.question); is {
				w.send(message{answer: a})
			}
		}
	}
}

func (w *World) granted(now time.Duration, cell int, r Request) {
	w.figures.grants++
	w.figures.waited += now - r.Came
	if w.cfg.Granted != nil {
		w.cfg.Granted(now, cell, r)
	}
}

// measure compares the idle units of some cells with the missing units of others.
func (w *World) measure() {
	used, idle, lacking := 0, w.owner.free(), 0
	if w.cfg.Split {
		idle = 0
	}
	for i, c := range w.cells {
		used += w.inUse[i]
		if left := w.owner.cells[i].counted - w.inUse[i] - c.needs(); left > 0 {
			idle += left
		} else {
			lacking -= left
		}
	}
	f := &w.figures
	stranded := float64(min(idle, lacking))
	f.seconds, f.used, f.stranded, f.worst = f.seconds+1, f.used+float64(used), f.stranded+stranded, max(f.worst, stranded)
}

// check verifies the rules: the units that the owner counts are within the limit, and cover all
// units that are in use or that a cell may still take into use.
func (w *World) check() error {
	if free := w.owner.free(); free < 0 {
		return fmt.Errorf("%s: the owner counts %d more than the limit", w.now, -free)
	}
	for i, c := range w.cells {
		counted := w.owner.cells[i].counted
		if w.inUse[i] > counted {
			return fmt.Errorf("%s: cell %d uses %d, and the owner counts %d", w.now, i, w.inUse[i], counted)
		}
		if used := c.books.Used(); w.now >= c.downUntil && max(used, c.share) > counted {
			return fmt.Errorf("%s: cell %d has used %d and may use %d, and the owner counts %d", w.now, i, used, c.share, counted)
		}
	}
	return nil
}
