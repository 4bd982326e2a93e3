package placement

import (
	"math/bits"

	"github.com/bursar/bursar/coordinator/ledger"
)

const (
	// maxViews bounds the cost of a host's change, which is made in every view that has the host.
	maxViews = 16
	// maxPreferred bounds the ranks of a view; a request with more preferred labels and conditions
	// is searched without a view of its own.
	maxPreferred = 16
	// maxDebtors is how many signatures without a view the directory remembers with their cost.
	maxDebtors = 32
	// freeChecks is how many hosts a search may check in vain before the cost counts against its
	// signature.
	freeChecks = 16
	// idleSearches is the number of searches for other signatures after which a view may be
	// replaced.
	idleSearches = 1024
	// idleUpkeep is the number of changes per host, without a search, after which a view is
	// dropped.
	idleUpkeep = 4
)

// directory is the views of one aspect.
//
// The first view has every host and always exists. The directory makes another view for a signature
// once the searches for it have checked in vain as many hosts as there are: its making costs about
// as much as those checks. In the same way it drops a view once the changes in it since its last
// search have cost more than making it again.
type directory struct {
	fleet *fleet
	of    aspect
	views [maxViews]*view
	// made has a bit for each view that exists. host.members has a bit for each view that admits
	// the host, and stale bits.
	made    uint16
	clock   uint64 // counts searches
	debtors []debtor
}

// debtor is a signature without a view.
type debtor struct {
	signature
	cost int
	last uint64 // when it was last added to, by clock
}

func newDirectory(f *fleet, of aspect) *directory {
	d := &directory{fleet: f, of: of, made: 1}
	d.views[0] = newView(signature{}, 0)
	return d
}

// grow makes room for the fleet's slots.
func (d *directory) grow() {
	for made := d.made; made != 0; made &= made - 1 {
		d.views[bits.TrailingZeros16(made)].grow(len(d.fleet.hosts))
	}
}

// reshape updates the views that admit a host.
func (d *directory) reshape(slot ledger.Slot, h *host) {
	for made := d.made; made != 0; made &= made - 1 {
		i := bits.TrailingZeros16(made)
		if !d.admit(i, slot, h) {
			d.views[i].remove(slot)
		}
	}
}

// admit records whether a view admits a host.
func (d *directory) admit(i int, slot ledger.Slot, h *host) bool {
	v := d.views[i]
	if !v.admits(h) {
		h.members[d.of] &^= 1 << i
		return false
	}
	h.members[d.of] |= 1 << i
	if v.matched != nil {
		v.matched[slot] = uint8(v.matches(h)) //nolint:gosec // at most maxPreferred
	}
	return true
}

// put moves a host to its present place in every view that admits it.
func (d *directory) put(slot ledger.Slot, h *host) {
	for in := h.members[d.of] & d.made; in != 0; in &= in - 1 {
		i := bits.TrailingZeros16(in)
		d.place(d.views[i], slot, h)
		if i != 0 {
			d.countUpkeep(i)
		}
	}
}

func (d *directory) place(v *view, slot ledger.Slot, h *host) {
	v.put(slot, v.rankOf(slot, h, d.of), h.amounts[d.of].room())
}

// countUpkeep counts a change in a view, and drops the view if its upkeep costs too much.
func (d *directory) countUpkeep(i int) {
	v := d.views[i]
	if v.upkeep++; v.upkeep > idleUpkeep*d.fleet.size() {
		d.drop(i)
	}
}

func (d *directory) drop(i int) {
	d.views[i] = nil
	d.made &^= 1 << i
}

// remove takes a host out of every view.
func (d *directory) remove(slot ledger.Slot, h *host) {
	for in := h.members[d.of] & d.made; in != 0; in &= in - 1 {
		d.views[bits.TrailingZeros16(in)].remove(slot)
	}
}

// view returns the view to search: the signature's own view, or a smaller one than the first view
// that has every host that the signature admits, or the first view. s.partial is false for the
// signature's own view. view also resets the count of the search's waste.
func (d *directory) view(s *search) *view {
	s.of, s.wasted = d.of, 0
	d.clock++
	found := d.views[0]
	s.partial = !s.plain()
	if !s.partial {
		return found
	}
	for made := d.made &^ 1; made != 0; made &= made - 1 {
		v := d.views[bits.TrailingZeros16(made)]
		if v.equal(&s.signature) {
			s.partial = false
			found = v
			break
		}
		if v.includes(&s.signature) && v.hosts < found.hosts {
			found = v
		}
	}
	found.asked, found.upkeep = d.clock, 0
	return found
}

// countWaste adds the search's waste to its signature, and makes a view if the total has become too
// large.
func (d *directory) countWaste(s *search) {
	if s.wasted <= freeChecks || s.preferences() > maxPreferred {
		return
	}
	b := d.debtor(&s.signature)
	b.cost += s.wasted - freeChecks
	b.last = d.clock
	if b.cost < d.fleet.size() {
		return
	}
	i := d.vacancy()
	if i < 0 {
		b.cost = d.fleet.size()
		return
	}
	g := b.signature
	*b = d.debtors[len(d.debtors)-1]
	d.debtors[len(d.debtors)-1] = debtor{}
	d.debtors = d.debtors[:len(d.debtors)-1]
	d.make(i, g)
}

// debtor finds or adds a signature. If there is no room, it replaces the one whose cost has not
// grown for the longest time.
func (d *directory) debtor(g *signature) *debtor {
	oldest := 0
	for i := range d.debtors {
		b := &d.debtors[i]
		if b.equal(g) {
			return b
		}
		if b.last < d.debtors[oldest].last {
			oldest = i
		}
	}
	if len(d.debtors) < maxDebtors {
		oldest = len(d.debtors)
		d.debtors = append(d.debtors, debtor{})
	}
	d.debtors[oldest] = debtor{signature: *g}
	return &d.debtors[oldest]
}

// vacancy returns a number for a new view: a free one, or that of an idle view, which it drops;
// otherwise -1.
func (d *directory) vacancy() int {
	if free := ^d.made; free != 0 {
		return bits.TrailingZeros16(free)
	}
	oldest := 1
	for i := 2; i < maxViews; i++ {
		if d.views[i].asked < d.views[oldest].asked {
			oldest = i
		}
	}
	if d.clock-d.views[oldest].asked < idleSearches {
		return -1
	}
	d.drop(oldest)
	return oldest
}

// make makes a view of all hosts that a signature admits.
func (d *directory) make(i int, g signature) {
	v := newView(g, len(d.fleet.hosts))
	v.asked = d.clock
	d.views[i] = v
	d.made |= 1 << i
	for n := range d.fleet.hosts {
		slot, h := ledger.Slot(n), &d.fleet.hosts[n]
		if h.present() && d.admit(i, slot, h) {
			d.place(v, slot, h)
		}
	}
}
