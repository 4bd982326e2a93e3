package placement

import (
	"math/bits"

	"github.com/bursar/bursar/coordinator/ledger"
)

// view is the hosts that a signature admits, arranged by rank and, inside a rank, by room.
//
// Ranks are numbered from the best: for every number of preferences that match, most first,
// the grades. Three ranks follow in which no search finds a host: two for hosts whose counts do
// not fit (held or not), and one for hosts that are not schedulable.
type view struct {
	signature
	ranks   []*rank
	ranked  []uint64 // bit: the rank has a host
	cells   []cell   // the first is not used
	spare   []int32  // free cells
	where   []location
	hosts   int
	matched []uint8 // by slot: preferences that match; nil if there are none

	asked  uint64 // when it was last searched, by directory.clock
	upkeep int    // changes since then
}

// location is where a host is in a view. The zero location is nowhere.
type location struct {
	cell  int32
	place int32
}

func newView(g signature, slots int) *view {
	ranks := (g.preferences()+1)*grades + 3
	v := &view{
		signature: g,
		ranks:     make([]*rank, ranks),
		ranked:    make([]uint64, (ranks+63)/64),
		cells:     make([]cell, 1),
	}
	v.grow(slots)
	return v
}

func (v *view) grow(slots int) {
	v.where = append(v.where, make([]location, slots-len(v.where))...)
	if v.preferences() > 0 {
		v.matched = append(v.matched, make([]uint8, slots-len(v.matched))...)
	}
}

// openRanks is the number of ranks in which a search finds hosts.
func (v *view) openRanks() int { return (v.preferences() + 1) * grades }

func (v *view) shortRank() int { return v.openRanks() }

func (v *view) closedRank() int { return v.openRanks() + 2 }

// rankOf is the rank in which a host belongs. By their limits all hosts are empty and schedulable.
func (v *view) rankOf(slot ledger.Slot, h *host, of aspect) int {
	grade := 0
	if of == available {
		if !h.schedulable() {
			return v.closedRank()
		}
		grade = int(h.grade)
	}
	if v.counted() && !v.countsFit(h, of) {
		return v.shortRank() + grade&gradeHeld
	}
	if h.amounts[of].instances <= 0 {
		grade |= gradeSpent
	}
	if v.matched != nil {
		grade += (v.preferences() - int(v.matched[slot])) * grades
	}
	return grade
}

// put adds a host or moves it to its present place.
func (v *view) put(slot ledger.Slot, rank int, r room) {
	row, column := memoryLevel(r.memory), cpuLevel(r.cpu)
	if at := v.where[slot]; at.cell != 0 {
		c := &v.cells[at.cell]
		if c.rank == rank && c.row == row && c.column == column {
			v.update(c, int(at.place), r)
			return
		}
		v.remove(slot)
	}
	v.insert(slot, rank, row, column, r)
}

func (v *view) update(c *cell, place int, r room) {
	if c.places[place].room == r {
		return
	}
	c.update(place, r)
	in := v.ranks[c.rank]
	at, _ := in.seek(c.row, c.column)
	in.cells[at].bound.raise(r)
}

func (v *view) insert(slot ledger.Slot, rank, row, column int, r room) {
	in := v.rank(rank)
	at, found := in.seek(row, column)
	if !found {
		in.insertCell(at, row, column, v.newCell(rank, row, column))
		v.ranked[rank/64] |= 1 << (rank % 64)
	}
	v.hosts++
	ref := &in.cells[at]
	ref.hosts++
	ref.bound.raise(r)
	place := v.cells[ref.cell].add(place{r, slot})
	v.where[slot] = location{ref.cell, int32(place)} //nolint:gosec // there are fewer places than slots
}

// remove removes a host, if it is there.
func (v *view) remove(slot ledger.Slot) {
	from := v.where[slot]
	if from.cell == 0 {
		return
	}
	c := &v.cells[from.cell]
	if moved := c.remove(int(from.place)); moved != slot {
		v.where[moved].place = from.place
	}
	v.where[slot] = location{}
	v.hosts--
	in := v.ranks[c.rank]
	at, _ := in.seek(c.row, c.column)
	ref := &in.cells[at]
	if ref.hosts--; ref.hosts > 0 {
		return
	}
	in.removeCell(at, c.row, c.column)
	if len(in.cells) == 0 {
		v.ranked[c.rank/64] &^= 1 << (c.rank % 64)
	}
	v.spare = append(v.spare, from.cell)
}

func (v *view) rank(n int) *rank {
	if v.ranks[n] == nil {
		v.ranks[n] = &rank{}
	}
	return v.ranks[n]
}

func (v *view) newCell(rank, row, column int) int32 {
	var n int32
	if last := len(v.spare) - 1; last >= 0 {
		n = v.spare[last]
		v.spare = v.spare[:last]
	} else {
		n = int32(len(v.cells)) //nolint:gosec // there are no more cells than slots
		v.cells = append(v.cells, cell{})
	}
	c := &v.cells[n]
	c.rank, c.row, c.column = rank, row, column
	return n
}

// choose returns the best host that the search accepts, or NoSlot.
func (v *view) choose(s *search) ledger.Slot {
	s.best, s.bestMatches = ledger.NoSlot, -1
	kinds := s.grades()
	for word := range v.openRanks() / 64 {
		for left := v.ranked[word] & kinds; left != 0; left &= left - 1 {
			n := word*64 + bits.TrailingZeros64(left)
			if slot := v.chooseIn(v.ranks[n], s); slot != ledger.NoSlot {
				return slot
			}
		}
	}
	return s.best
}

// chooseIn returns any host of the rank that the search accepts. It begins at the host that the
// search's draw selects among all hosts of the cells that may have the room, and wraps around.
func (v *view) chooseIn(in *rank, s *search) ledger.Slot {
	s.steps++
	hosts := in.candidates(s)
	if hosts == 0 {
		return ledger.NoSlot
	}
	start, i := s.position(hosts), 0
	for start >= int(in.cells[s.cells[i]].hosts) {
		start -= int(in.cells[s.cells[i]].hosts)
		i++
	}
	for range s.cells {
		ref := &in.cells[s.cells[i]]
		c := &v.cells[ref.cell]
		if slot := c.visit(s, start); slot != ledger.NoSlot {
			return slot
		}
		ref.bound = c.bound()
		if i++; i == len(s.cells) {
			i = 0
		}
		start = s.position(int(in.cells[s.cells[i]].hosts))
	}
	return ledger.NoSlot
}
