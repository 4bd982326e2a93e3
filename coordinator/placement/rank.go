package placement

import (
	"math/bits"
	"slices"
)

// rank is the cells of one score: a sparse table of levels of memory (rows) by levels of cpu
// (columns). All hosts of a rank are equals; the turn decides which of them is taken.
type rank struct {
	rows    uint64         // bit m: the row has a cell
	columns [levels]uint64 // bit c of row m: the cell is there
	first   [levels]int    // where a row's cells begin in cells, even if it has none
	cells   []cellRef      // by row, then by column
}

// cellRef is the summary of a cell that a search reads before it visits the cell.
type cellRef struct {
	cell  int32 // in view.cells
	hosts int32
	bound room // no host of the cell has more
}

// seek returns the position in cells at which the cell of a row and column is or belongs.
func (r *rank) seek(row, column int) (at int, found bool) {
	columns := r.columns[row]
	return r.first[row] + bits.OnesCount64(columns&(1<<column-1)), columns>>column&1 != 0
}

// insertCell adds a cell at the place that seek returned.
func (r *rank) insertCell(at, row, column int, cell int32) {
	r.cells = slices.Insert(r.cells, at, cellRef{cell: cell})
	r.columns[row] |= 1 << column
	r.rows |= 1 << row
	for row++; row < levels; row++ {
		r.first[row]++
	}
}

// removeCell removes an empty cell.
func (r *rank) removeCell(at, row, column int) {
	r.cells = slices.Delete(r.cells, at, at+1)
	r.columns[row] &^= 1 << column
	if r.columns[row] == 0 {
		r.rows &^= 1 << row
	}
	for row++; row < levels; row++ {
		r.first[row]--
	}
}

// span returns the range in cells of a row's cells, from a column on.
func (r *rank) span(row, column int) (begin, end int) {
	columns := r.columns[row]
	end = r.first[row] + bits.OnesCount64(columns)
	return end - bits.OnesCount64(columns>>column), end
}

// candidates sets search.cells to the cells that may have the search's room, and returns how many
// hosts are in them.
func (r *rank) candidates(s *search) (hosts int) {
	s.cells = s.cells[:0]
	for rows := r.rows >> s.row << s.row; rows != 0; rows &= rows - 1 {
		row := bits.TrailingZeros64(rows)
		begin, end := r.span(row, s.column)
		s.steps += 1 + end - begin
		for at := begin; at < end; at++ {
			if r.cells[at].bound.holds(s.need) {
				s.cells = append(s.cells, at)
				hosts += int(r.cells[at].hosts)
			}
		}
	}
	return hosts
}
