package placement

import (
	"math"
	"math/bits"

	"github.com/bursar/bursar/coordinator/ledger"
)

// Nearness of a host to a request that it may not take, from the nearest.
const (
	nearOpen   = iota // open to it, and its instances and custom countables suffice
	nearShort         // open to it, and they would suffice if nothing else ran
	nearClosed        // not open to it: unhealthy, unmeasured, or held where NoHeld is asked for
	nearLevels
)

// Closest returns the host that has the required labels, is not to be avoided, and has the most to give: the nearest
// first, then the one with the largest part of the memory and cpu asked for, whichever of the two is less. Hosts that are
// too small to ever have the instances and custom countables come last, open ones before others. Rejected is not asked.
func (x *Index) Closest(q ledger.Query) ledger.Slot {
	s := &x.search
	s.begin(&q)
	slot := x.free.closest(s)
	if slot == ledger.NoSlot && (s.instances > 0 || s.counted()) {
		s.instances, s.signature.instances, s.custom = 0, 0, nil
		slot = x.free.closest(s)
	}
	return slot
}

func (d *directory) closest(s *search) ledger.Slot {
	v := d.view(s)
	defer d.settle(s)
	for near := range nearLevels {
		c := contest{search: s, near: near, best: ledger.NoSlot, share: -1}
		for word, left := range v.ranked {
			for ; left != 0; left &= left - 1 {
				if n := word*64 + bits.TrailingZeros64(left); v.mayBe(n, near, s) {
					c.look(v, v.ranks[n])
				}
			}
		}
		if c.best != ledger.NoSlot {
			return c.best
		}
	}
	return ledger.NoSlot
}

// mayBe reports whether hosts of a rank can be that near.
func (v *view) mayBe(rank, near int, s *search) bool {
	if rank == v.closed() {
		return near == nearClosed
	}
	switch {
	case s.noHeld && rank&gradeHeld != 0:
		return near == nearClosed
	case near == nearClosed:
		return false
	case rank >= v.short() || rank&gradeSpent != 0 && s.instances > 0:
		return near == nearShort
	default:
		return near == nearOpen || s.partial
	}
}

// nearness of a host; nearLevels where it is too small.
func (s *search) nearness(h *host) int {
	switch {
	case s.instances > h.amounts[limit].instances || !s.countsFit(h, limit):
		return nearLevels
	case !h.open() || h.held() && s.noHeld:
		return nearClosed
	case s.instances > h.amounts[available].instances || !s.countsFit(h, available):
		return nearShort
	default:
		return nearOpen
	}
}

// contest looks for the host of one nearness with the largest share.
type contest struct {
	*search
	near  int
	best  ledger.Slot
	share float64
}

// shareOf is the part of the need that is there, by the scarcer of memory and cpu. It never falls when there is more room.
func (c *contest) shareOf(r room) float64 {
	share := math.Inf(1)
	if c.need.memory > 0 {
		share = float64(r.memory) / float64(c.need.memory)
	}
	if c.need.cpu > 0 {
		share = min(share, float64(r.cpu)/float64(c.need.cpu))
	}
	return share
}

// look looks into the cells, the largest first, that may have a larger share than the best so far.
func (c *contest) look(v *view, in *rank) {
	for at := len(in.cells) - 1; at >= 0; at-- {
		ref := &in.cells[at]
		if c.shareOf(ref.bound) <= c.share {
			continue
		}
		cell := &v.cells[ref.cell]
		for block, bound := range cell.blocks {
			if c.shareOf(bound) > c.share {
				c.compare(cell.block(block))
				cell.tighten(block)
			}
		}
		ref.bound = cell.bound()
	}
}

func (c *contest) compare(places []place) {
	for i := range places {
		p := &places[i]
		share := c.shareOf(p.room)
		if share <= c.share || c.avoids(p.slot) {
			continue
		}
		h := &c.fleet.hosts[p.slot]
		if h.labels.MatchesFilter(c.required) && c.nearness(h) == c.near {
			c.best, c.share = p.slot, share
		} else {
			c.wasted++
		}
	}
}
