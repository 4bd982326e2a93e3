package placement

import (
	"math/bits"

	"github.com/bursar/bursar/coordinator/ledger"
)

// Nearness of a host to a request that it may not take, from the nearest.
const (
	nearOpen   = iota // schedulable, and its instances and custom countables suffice
	nearShort         // schedulable, and they would suffice if nothing else ran
	nearClosed        // not schedulable: unhealthy or unmeasured
	nearLevels
)

// Closest returns the host with the required labels, and not to be avoided, that comes nearest to
// the request. Nearer hosts come first. Among equally near hosts the one with the largest share of
// the memory or cpu asked for wins; the smaller of the two shares counts. Hosts that are too small
// to ever have the instances and custom countables come last, schedulable ones before others. It
// does not call Rejected.
func (x *Index) Closest(q ledger.Query) ledger.Slot {
	c := &x.contest
	c.begin(&q)
	if !x.mayQualify(c.search) {
		return ledger.NoSlot
	}
	slot := x.free.closest(c)
	if slot == ledger.NoSlot && (c.instances > 0 || c.counted()) {
		c.instances, c.signature.instances, c.custom = 0, 0, nil
		slot = x.free.closest(c)
	}
	return slot
}

func (d *directory) closest(c *contest) ledger.Slot {
	v := d.view(c.search)
	c.nearest = ledger.NoSlot
	for c.near = nearOpen; c.near < nearLevels && c.nearest == ledger.NoSlot; c.near++ {
		c.share = -1
		for word, left := range v.ranked {
			for ; left != 0; left &= left - 1 {
				if n := word*64 + bits.TrailingZeros64(left); v.mayBe(n, c.near, c.search) {
					c.searchRank(v, v.ranks[n], c)
				}
			}
		}
	}
	d.countWaste(c.search)
	return c.nearest
}

// mayBe reports whether hosts of a rank can have that nearness.
func (v *view) mayBe(rank, near int, s *search) bool {
	if rank == v.closedRank() {
		return near == nearClosed
	}
	switch {
	case near == nearClosed:
		return false
	case rank >= v.shortRank() || rank&gradeSpent != 0 && s.instances > 0:
		return near == nearShort
	default:
		return near == nearOpen || s.partial
	}
}

// nearness returns the nearness of a host; nearLevels if the host is too small.
func (s *search) nearness(h *host) int {
	switch {
	case s.instances > h.amounts[limit].instances || !s.countsFit(h, limit):
		return nearLevels
	case !h.schedulable():
		return nearClosed
	case s.instances > h.amounts[available].instances || !s.countsFit(h, available):
		return nearShort
	default:
		return nearOpen
	}
}

// contest looks for the host of one nearness with the largest share. Like search it is reused for
// all queries.
type contest struct {
	*search
	near    int
	nearest ledger.Slot
	share   float64
}

// shareOf returns the available share of the need, by the scarcer of memory and cpu: at most 1, the
// whole need. It never falls if the room grows.
func (c *contest) shareOf(r room) float64 {
	share := 1.0
	if r.memory < c.need.memory {
		share = float64(r.memory) / float64(c.need.memory)
	}
	if r.cpu < c.need.cpu {
		share = min(share, float64(r.cpu)/float64(c.need.cpu))
	}
	return share
}

// searchRank searches the cells of a rank that may have a larger share than the best so far, the
// largest first. It skips levels below that share of the need. by is c, or a visitor that contains
// c.
func (c *contest) searchRank(v *view, in *rank, by visitor) {
	share := max(0, c.share)
	row, column := memoryLevel(int64(share*float64(c.need.memory))), cpuLevel(int64(share*float64(c.need.cpu)))
	c.steps++
	for rows := in.rows >> row << row; rows != 0 && c.share < 1; {
		row := bits.Len64(rows) - 1
		rows &^= 1 << row
		begin, end := in.span(row, column)
		for at := end - 1; at >= begin; at-- {
			ref := &in.cells[at]
			c.steps++
			if c.shareOf(ref.bound) <= c.share {
				continue
			}
			cell := &v.cells[ref.cell]
			if cell.visit(by, 0) != ledger.NoSlot {
				return
			}
			ref.bound = cell.bound()
		}
	}
}

// wants reports whether a host with at most this room can be better than the best so far.
func (c *contest) wants(most room) bool {
	c.steps++
	return c.shareOf(most) > c.share
}

// takes compares a host with the best so far. The contest is over when a host has the largest
// possible share.
func (c *contest) takes(p *place) bool {
	c.steps++
	share := c.shareOf(p.room)
	if share <= c.share || c.avoids(p.slot) {
		return false
	}
	h := &c.fleet.hosts[p.slot]
	if c.partial && !c.labelled(h) || c.nearness(h) != c.near {
		c.wasted++
		return false
	}
	c.nearest, c.share = p.slot, share
	return share >= 1
}
