package placement

import "github.com/bursar/bursar/coordinator/ledger"

// room is what hosts are arranged by: bytes of memory and thousandths of a core.
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
	// blockSize is how many places share a bound. A search reads bounds first, so a cell of n hosts of which hardly any
	// fit costs n/32 steps rather than n.
	blockSize = 32
	// keptPlaces is the capacity that a cell keeps when it shrinks.
	keptPlaces = 64
)

// cell holds hosts of one rank whose memory is on one level and whose cpu is on one level, in no order.
type cell struct {
	places []place
	blocks []room // for every blockSize places, an upper bound of their room; exact after a search that found nothing there
	rank   int
	row    int // level of memory
	column int // level of cpu
}

// add appends a place and returns its position.
func (c *cell) add(p place) int {
	at := len(c.places)
	c.places = append(c.places, p)
	if at%blockSize == 0 {
		c.blocks = append(c.blocks, p.room)
	} else {
		c.blocks[at/blockSize].raise(p.room)
	}
	return at
}

// update changes the room of a place.
func (c *cell) update(at int, r room) {
	c.places[at].room = r
	c.blocks[at/blockSize].raise(r)
}

// take removes a place. The last one moves there; its slot is returned, which may be the one that was removed.
func (c *cell) take(at int) ledger.Slot {
	last := len(c.places) - 1
	p := c.places[last]
	if at != last {
		c.places[at] = p
		c.blocks[at/blockSize].raise(p.room)
	}
	c.places = c.places[:last]
	if last%blockSize == 0 {
		c.blocks = c.blocks[:last/blockSize]
	}
	if n := cap(c.places); n > keptPlaces && last < n/4 {
		c.places = append(make([]place, 0, n/2), c.places...)
		c.blocks = append(make([]room, 0, n/2/blockSize+1), c.blocks...)
	}
	return p.slot
}

// find returns a host that the search accepts, beginning at a position and going round; or NoSlot.
func (c *cell) find(s *search, start int) ledger.Slot {
	block := start / blockSize
	s.steps += len(c.blocks)
	for range c.blocks {
		if c.blocks[block].holds(s.need) {
			if slot := c.findInBlock(s, block, start%blockSize); slot != ledger.NoSlot {
				return slot
			}
		}
		if block++; block == len(c.blocks) {
			block = 0
		}
	}
	return ledger.NoSlot
}

func (c *cell) findInBlock(s *search, block, start int) ledger.Slot {
	places := c.block(block)
	at := start % len(places) // the last block may be short
	s.steps += len(places)
	for range places {
		if p := &places[at]; p.holds(s.need) && s.accepts(p.slot) {
			return p.slot
		}
		if at++; at == len(places) {
			at = 0
		}
	}
	c.tighten(block)
	return ledger.NoSlot
}

func (c *cell) block(block int) []place {
	return c.places[block*blockSize : min((block+1)*blockSize, len(c.places))]
}

// tighten makes the bound of a block exact.
func (c *cell) tighten(block int) {
	var most room
	for i := range c.block(block) {
		most.raise(c.places[block*blockSize+i].room)
	}
	c.blocks[block] = most
}

// bound is an upper bound of the room of all places.
func (c *cell) bound() room {
	var most room
	for _, b := range c.blocks {
		most.raise(b)
	}
	return most
}
