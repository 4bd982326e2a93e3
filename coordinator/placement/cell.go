package placement

import (
	"slices"

	"github.com/bursar/bursar/coordinator/ledger"
)

// room is the memory in bytes and the cpu in thousandths of a core by which hosts are arranged.
type room struct{ memory, cpu int64 }

// holds reports whether the need fits.
func (r room) holds(need room) bool { return need.memory <= r.memory && need.cpu <= r.cpu }

func (r *room) raise(other room) {
	r.memory = max(r.memory, other.memory)
	r.cpu = max(r.cpu, other.cpu)
}

// place is a host in a cell, with a copy of its room so that a scan reads memory in order.
type place struct {
	room
	slot ledger.Slot
}

const (
	// fanBits is how many places share a bound, and how many bounds the bound above them: 2^5.
	fanBits = 5
	fan     = 1 << fanBits
	// storeys of bounds are enough for 2^20 places. With more places the top storey has more than
	// fan bounds.
	storeys = 3
	// keptPlaces is the capacity that a cell keeps when it shrinks.
	keptPlaces = 64
)

// cell holds hosts of one rank whose memory is on one level and whose cpu is on one level, in no
// order.
//
// Above the places there is a tree of upper bounds of their room. Bounds are raised with every
// place that is added or grows, and made exact again after a visit that found nothing. So a search
// costs the same among very many hosts as among few, and hosts that do not have the room are
// skipped together.
type cell struct {
	places []place
	bounds [storeys][]room
	rank   int
	row    int // level of memory
	column int // level of cpu
}

// visitor looks for a place.
type visitor interface {
	// wants reports whether a place with at most that room can be a match.
	wants(most room) bool
	// takes reports whether the place is a match.
	takes(p *place) bool
}

// add appends a place and returns its position.
func (c *cell) add(p place) int {
	at := len(c.places)
	c.places = append(c.places, p)
	if at%fan == 0 {
		c.extend(at)
	}
	c.raise(at, p.room)
	return at
}

// extend adds the bounds that a new place needs.
func (c *cell) extend(at int) {
	for i := range c.bounds {
		if at >>= fanBits; at == len(c.bounds[i]) {
			c.bounds[i] = append(c.bounds[i], room{})
		}
	}
}

// raise makes sure that the bounds above a place hold its room.
func (c *cell) raise(at int, r room) {
	if c.bounds[0][at/fan].holds(r) {
		return // and so do the bounds above
	}
	for i := range c.bounds {
		at >>= fanBits
		c.bounds[i][at].raise(r)
	}
}

// update changes the room of a place.
func (c *cell) update(at int, r room) {
	c.places[at].room = r
	c.raise(at, r)
}

// remove removes a place. The last place moves into its position. remove returns the slot of the
// moved place, which may be the removed one.
func (c *cell) remove(at int) ledger.Slot {
	last := len(c.places) - 1
	p := c.places[last]
	if at != last {
		c.places[at] = p
		c.raise(at, p.room)
	}
	c.places = c.places[:last]
	if last%fan == 0 {
		c.shrink()
	}
	return p.slot
}

// shrink drops the bounds without places, and releases memory that is far more than needed.
func (c *cell) shrink() {
	n := len(c.places)
	for i := range c.bounds {
		n = (n + fan - 1) / fan
		c.bounds[i] = c.bounds[i][:n]
	}
	if n := cap(c.places); n > keptPlaces && len(c.places) <= n/4 {
		c.places = append(make([]place, 0, n/2), c.places...)
		for i := range c.bounds {
			c.bounds[i] = slices.Clone(c.bounds[i])
		}
	}
}

// top is the lowest storey with few bounds.
func (c *cell) top() int {
	i := 0
	for i < storeys-1 && len(c.bounds[i]) > fan {
		i++
	}
	return i
}

// bound is an upper bound of the room of all places.
func (c *cell) bound() room { return highest(c.bounds[c.top()]) }

func highest(bounds []room) (most room) {
	for _, b := range bounds {
		most.raise(b)
	}
	return most
}

// visit returns the slot of the place that the visitor takes, or NoSlot. It begins near a position
// and wraps around.
func (c *cell) visit(v visitor, start int) ledger.Slot {
	top := c.top()
	return c.visitBounds(v, top, 0, len(c.bounds[top]), start)
}

// visitBounds visits the places below some bounds of a storey.
func (c *cell) visitBounds(v visitor, storey, begin, end, start int) ledger.Slot {
	i := begin + (start>>((storey+1)*fanBits))%(end-begin)
	for range end - begin {
		if v.wants(c.bounds[storey][i]) {
			if slot := c.visitBelow(v, storey, i, start); slot != ledger.NoSlot {
				return slot
			}
		}
		if i++; i == end {
			i = begin
		}
	}
	return ledger.NoSlot
}

// visitBelow visits the places below a bound. If the visitor takes none, it makes the bound exact.
func (c *cell) visitBelow(v visitor, storey, i, start int) ledger.Slot {
	begin := i << fanBits
	if storey > 0 {
		end := min(begin+fan, len(c.bounds[storey-1]))
		if slot := c.visitBounds(v, storey-1, begin, end, start); slot != ledger.NoSlot {
			return slot
		}
		c.bounds[storey][i] = highest(c.bounds[storey-1][begin:end])
		return ledger.NoSlot
	}
	places := c.places[begin:min(begin+fan, len(c.places))]
	at := start % len(places)
	for range places {
		if v.takes(&places[at]) {
			return places[at].slot
		}
		if at++; at == len(places) {
			at = 0
		}
	}
	var most room
	for i := range places {
		most.raise(places[i].room)
	}
	c.bounds[0][i] = most
	return ledger.NoSlot
}
