package placement

import (
	"math/bits"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/resource"
)

// mostCompared is how many hosts Largest compares one by one. It is reached only if so many hosts
// have the memory and cpu, but too little of something else.
const mostCompared = 256

// Largest returns the host that would have the largest part of the request if nothing ran there:
// of memory, cpu, instances or a custom countable, whichever part is the smallest. It looks at
// hosts that have the required labels and are not to be avoided, also if they are not healthy, held
// or rejected. If more than mostCompared hosts have the memory and cpu but lack something else, it
// is the largest of so many of them.
func (x *Index) Largest(q ledger.Query) ledger.Slot {
	c := &x.sizes
	c.begin(&q)
	if !x.mayQualify(c.search) {
		return ledger.NoSlot
	}
	c.nearest, c.share, c.compared = ledger.NoSlot, -1, 0
	c.counts = c.custom
	// hosts that have too little of the counts are to be compared as well
	c.preferred, c.better, c.signature.instances, c.custom = nil, nil, 0, nil
	v := x.limits.view(c.search)
	for word, left := range v.ranked {
		for ; left != 0 && !c.done(); left &= left - 1 {
			c.searchRank(v, v.ranks[word*64+bits.TrailingZeros64(left)], c)
		}
	}
	x.limits.countWaste(c.search)
	return c.nearest
}

// sizes is a contest among hosts as they would be if nothing ran.
type sizes struct {
	contest

	counts   []resource.Quantity // the custom countables of the request
	compared int
}

func (c *sizes) done() bool { return c.share >= 1 || c.compared >= mostCompared }

// takes compares a host with the largest so far.
func (c *sizes) takes(p *place) bool {
	c.steps++
	share := c.shareOf(p.room)
	if share <= c.share || c.avoids(p.slot) {
		return false
	}
	h := &c.fleet.hosts[p.slot]
	if c.partial && !c.labelled(h) {
		c.wasted++
		return false
	}
	c.compared++
	if share = min(share, c.countShare(h)); share > c.share {
		c.nearest, c.share = p.slot, share
	}
	return c.done()
}

// countShare is the part of the request's instances and custom countables that the host has, by the
// scarcest.
func (c *sizes) countShare(h *host) float64 {
	share := 1.0
	if n := c.instances; n > h.amounts[limit].instances {
		share = float64(h.amounts[limit].instances) / float64(n)
	}
	for _, q := range c.counts {
		if has := h.count(limit, q.Name); has < q.Value {
			share = min(share, float64(has)/float64(q.Value))
		}
	}
	return share
}
