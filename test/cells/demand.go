package cells

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"
)

// Request asks for some units of the limit.
type Request struct {
	ID, Units int
	Life      time.Duration // the run time of its engine
	Came      time.Duration
	GivesUp   time.Duration // when its caller stops waiting
}

// Requests have 1 to largest units, and their engines run for 1 to 10 minutes.
const (
	largest     = 4
	meanUnits   = (1 + largest) / 2.0
	shortest    = 60
	longest     = 600
	meanLife    = (shortest + longest) / 2.0
	waitsAtMost = 2 * time.Minute
)

// Pattern decides which cells requests come to.
type Pattern int

// The patterns of demand.
const (
	Uniform Pattern = iota // all cells alike
	Skewed                 // cell n has one n-th of the first one's demand
	Moving                 // each 10 minutes another tenth of the cells has four fifths
	Bursts                 // 50 requests at once, to any cell
)

func (p Pattern) String() string {
	switch p {
	case Uniform:
		return "uniform"
	case Skewed:
		return "skewed"
	case Moving:
		return "moving"
	case Bursts:
		return "bursts"
	default:
		return fmt.Sprintf("pattern %d", int(p))
	}
}

// demand draws requests. They depend only on the seed, not on the results.
type demand struct {
	random  *rand.Rand
	pattern Pattern
	cells   int
	rate    float64   // requests per second
	upTo    []float64 // for Skewed: the sum of the weights up to each cell
	last    int       // id
}

// newDemand returns demand that uses units on average if all of it is granted.
func newDemand(seed uint64, p Pattern, cells int, units float64) *demand {
	d := &demand{random: rand.New(rand.NewPCG(seed, 1)), pattern: p, cells: cells, rate: units / (meanUnits * meanLife)}
	sum := 0.0
	for i := range cells {
		sum += 1 / float64(i+1)
		d.upTo = append(d.upTo, sum)
	}
	return d
}

// next yields the requests of one second with their cells.
func (d *demand) next(now time.Duration, yield func(cell int, r Request)) {
	atOnce := 1
	if d.pattern == Bursts {
		atOnce = 50
	}
	for range d.poisson(d.rate / float64(atOnce)) {
		cell := d.cell(now)
		for range atOnce {
			d.last++
			yield(cell, Request{
				ID: d.last, Units: 1 + d.random.IntN(largest), Came: now, GivesUp: now + waitsAtMost,
				Life: time.Duration(shortest+d.random.IntN(longest-shortest+1)) * time.Second,
			})
		}
	}
}

func (d *demand) cell(now time.Duration) int {
	switch d.pattern {
	case Skewed:
		at := d.random.Float64() * d.upTo[d.cells-1]
		for i, sum := range d.upTo {
			if at < sum {
				return i
			}
		}
	case Moving:
		if tenth := max(1, d.cells/10); d.random.Float64() < 0.8 {
			first := int(now/(10*time.Minute)) * tenth
			return (first + d.random.IntN(tenth)) % d.cells
		}
	default:
	}
	return d.random.IntN(d.cells)
}

// poisson draws a number with a small mean.
func (d *demand) poisson(mean float64) (n int) {
	for p := d.random.Float64(); p > math.Exp(-mean); n++ {
		p *= d.random.Float64()
	}
	return n
}
