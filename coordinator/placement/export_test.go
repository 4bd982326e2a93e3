package placement

import (
	"fmt"
	"unsafe"

	"github.com/bursar/bursar/coordinator/ledger"
)

// Views is how many views there are of what hosts have left, and of their limits.
func (x *Index) Views() (free, limits int) {
	count := func(d *directory) (n int) {
		for _, v := range d.views {
			if v != nil {
				n++
			}
		}
		return n
	}
	return count(x.free), count(x.limits)
}

// Audit recomputes what the index keeps and returns the first thing that is not as it must be.
func (x *Index) Audit() error {
	hosts := 0
	for slot := range x.fleet.hosts {
		if h := &x.fleet.hosts[slot]; h.present() {
			hosts++
			if x.fleet.slots[h.id] != ledger.Slot(slot) {
				return fmt.Errorf("slot %d: %q is filed under slot %d", slot, h.id, x.fleet.slots[h.id])
			}
		}
	}
	if hosts != x.fleet.size() {
		return fmt.Errorf("%d hosts, %d ids", hosts, x.fleet.size())
	}
	for _, d := range [...]*directory{x.free, x.limits} {
		for i, v := range d.views {
			if v != nil != (d.made>>i&1 != 0) {
				return fmt.Errorf("view %d of aspect %d: made is %b", i, d.of, d.made)
			}
			if v == nil {
				continue
			}
			if err := d.audit(v); err != nil {
				return fmt.Errorf("view %d of aspect %d, %+v: %w", i, d.of, v.signature, err)
			}
		}
	}
	return nil
}

func (d *directory) audit(v *view) error {
	hosts, cells := 0, 1+len(v.spare)
	for n := range d.fleet.hosts {
		h, slot := &d.fleet.hosts[n], ledger.Slot(n)
		at := v.where[n]
		if admitted := h.present() && v.admits(h); admitted != (at.cell != 0) {
			return fmt.Errorf("slot %d: admitted is %t, but it is at %v", n, admitted, at)
		}
		if at.cell == 0 {
			continue
		}
		hosts++
		c := &v.cells[at.cell]
		r := h.amounts[d.of].room()
		if p := c.places[at.place]; p.slot != slot || p.room != r {
			return fmt.Errorf("slot %d with %v: its place holds %v", n, r, p)
		}
		if rank := v.rankOf(slot, h, d.of); c.rank != rank || c.row != memoryLevel(r.memory) || c.column != cpuLevel(r.cpu) {
			return fmt.Errorf("slot %d with %v belongs in rank %d: it is in %d, %d, %d", n, r, rank, c.rank, c.row, c.column)
		}
	}
	if hosts != v.hosts {
		return fmt.Errorf("%d hosts: it counts %d", hosts, v.hosts)
	}
	for n, in := range v.ranks {
		if ranked := v.ranked[n/64]>>(n%64)&1 != 0; ranked != (in != nil && len(in.cells) > 0) {
			return fmt.Errorf("rank %d: ranked is %t", n, ranked)
		}
		if in == nil {
			continue
		}
		found, err := v.auditRank(n, in)
		if err != nil {
			return fmt.Errorf("rank %d: %w", n, err)
		}
		hosts -= found
		cells += len(in.cells)
	}
	if cells != len(v.cells) {
		return fmt.Errorf("%d cells: %d are in ranks or spare", len(v.cells), cells)
	}
	if hosts != 0 {
		return fmt.Errorf("%d hosts are in no rank", hosts)
	}
	return nil
}

func (v *view) auditRank(n int, in *rank) (hosts int, err error) {
	next := 0
	for row := range levels {
		if in.first[row] != next {
			return 0, fmt.Errorf("row %d begins at %d: want %d", row, in.first[row], next)
		}
		if (in.columns[row] != 0) != (in.rows>>row&1 != 0) {
			return 0, fmt.Errorf("row %d: rows are %b", row, in.rows)
		}
		for column := range levels {
			if in.columns[row]>>column&1 == 0 {
				continue
			}
			ref := in.cells[next]
			next++
			c := &v.cells[ref.cell]
			if c.rank != n || c.row != row || c.column != column {
				return 0, fmt.Errorf("cell %d: is of %d, %d, %d: want %d, %d, %d", ref.cell, c.rank, c.row, c.column, n, row, column)
			}
			if len(c.places) == 0 || len(c.places) != int(ref.hosts) {
				return 0, fmt.Errorf("cell %d: %d places, %d hosts", ref.cell, len(c.places), ref.hosts)
			}
			if err := c.audit(); err != nil {
				return 0, fmt.Errorf("cell %d: %w", ref.cell, err)
			}
			if !ref.bound.holds(c.most()) {
				return 0, fmt.Errorf("cell %d: bound %v, most %v", ref.cell, ref.bound, c.most())
			}
			hosts += len(c.places)
		}
	}
	if next != len(in.cells) {
		return 0, fmt.Errorf("%d cells: want %d", len(in.cells), next)
	}
	return hosts, nil
}

func (c *cell) most() room {
	var most room
	for _, p := range c.places {
		most.raise(p.room)
	}
	return most
}

// audit checks that every bound holds all that is below it, and that the cell does not keep memory
// that it does not need.
func (c *cell) audit() error {
	n := len(c.places)
	for i, bounds := range c.bounds {
		if n = (n + fan - 1) / fan; len(bounds) != n {
			return fmt.Errorf("%d places, %d bounds in storey %d: want %d", len(c.places), len(bounds), i, n)
		}
		for at, p := range c.places {
			if b := bounds[at>>((i+1)*fanBits)]; !b.holds(p.room) {
				return fmt.Errorf("place %d, %v: the bound above it in storey %d is %v", at, p, i, b)
			}
		}
	}
	if cap(c.places) > keptPlaces && len(c.places)+fan < cap(c.places)/4 {
		return fmt.Errorf("%d places in memory for %d", len(c.places), cap(c.places))
	}
	return nil
}

// Steps is how many bounds and hosts the last search looked at.
func (x *Index) Steps() int { return x.search.steps }

// HostBytes is the size of what is kept for each host outside of views.
const HostBytes = unsafe.Sizeof(host{})
