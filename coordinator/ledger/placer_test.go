package ledger_test

import (
	"cmp"
	"maps"
	"slices"

	"github.com/bursar/bursar/coordinator/hostlabels"
	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/resource"
)

// plainPlacer looks at every host, each time. Of those that fit it takes the one with the most
// preferred labels, then with the least memory and cpu given away, then the first by id: no turn
// and no load, so that a script tells where things go.
type plainPlacer struct {
	hosts map[ledger.Slot]ledger.HostView
}

func newPlainPlacer() *plainPlacer {
	return &plainPlacer{hosts: make(map[ledger.Slot]ledger.HostView)}
}

func (p *plainPlacer) Put(slot ledger.Slot, v ledger.HostView) { p.hosts[slot] = v }

func (p *plainPlacer) Book(slot ledger.Slot, available, booked resource.Vector) {
	v, there := p.hosts[slot]
	if !there {
		panic("a host is booked that is not there")
	}
	v.Available, v.Booked = available, booked
	p.hosts[slot] = v
}

func (p *plainPlacer) Remove(slot ledger.Slot) { delete(p.hosts, slot) }

func (p *plainPlacer) Choose(q ledger.Query) ledger.Slot {
	return p.best(q, func(slot ledger.Slot, v ledger.HostView) bool {
		return v.Health && v.Measured && has(v.Available, q.Request) &&
			(q.Rejected == nil || !q.Rejected(slot))
	})
}

func (p *plainPlacer) Closest(q ledger.Query) ledger.Slot {
	return p.best(q, func(ledger.Slot, ledger.HostView) bool { return true })
}

func (p *plainPlacer) Possible(q ledger.Query) bool {
	for _, v := range p.hosts {
		if wished(q.Wishes, v) && has(v.Limit, q.Request) {
			return true
		}
	}
	return false
}

func (p *plainPlacer) Sized(q ledger.Query) ledger.Slot {
	for _, slot := range slices.Sorted(maps.Keys(p.hosts)) {
		if v := p.hosts[slot]; wished(q.Wishes, v) && has(v.Limit, q.Request) && (q.Rejected == nil || !q.Rejected(slot)) {
			return slot
		}
	}
	return ledger.NoSlot
}

func (p *plainPlacer) Largest(q ledger.Query) ledger.Slot {
	largest, share := ledger.NoSlot, 0.0
	for slot, v := range p.hosts {
		mine := 1.0
		for dimension, asked := range q.Request.All() {
			if there, _ := v.Limit.Get(dimension); asked > there {
				mine = min(mine, float64(there)/float64(asked))
			}
		}
		if wished(q.Wishes, v) && (largest == ledger.NoSlot || mine > share || mine == share && v.ID < p.hosts[largest].ID) {
			largest, share = slot, mine
		}
	}
	return largest
}

func (p *plainPlacer) Census() *hostlabels.Census {
	census := &hostlabels.Census{}
	for _, v := range p.hosts {
		census.Add(v.Labels)
	}
	return census
}

func (p *plainPlacer) Survey(q ledger.Query) ledger.HostFilters {
	f := ledger.HostFilters{}
	for slot, v := range p.hosts {
		if !q.Surveys(slot) {
			continue
		}
		f.Total++
		switch {
		case !wished(q.Wishes, v):
			f.Labels++
		case !v.Health:
			f.Health++
			if q.Closed != nil {
				q.Closed(slot)
			}
		case !v.Measured || q.Rejected != nil && q.Rejected(slot):
			f.Measurement++
		case !has(left(v), q.Request):
			f.Books++
		case !has(v.Available, q.Request):
			f.Headroom++
		default:
			f.Fit++
		}
	}
	return f
}

// best is the best host that matches the wishes and the filter, or NoSlot.
func (p *plainPlacer) best(q ledger.Query, filter func(ledger.Slot, ledger.HostView) bool) ledger.Slot {
	best := ledger.NoSlot
	for slot, v := range p.hosts {
		if wished(q.Wishes, v) && filter(slot, v) && (best == ledger.NoSlot || compare(q, v, p.hosts[best]) < 0) {
			best = slot
		}
	}
	return best
}

func compare(q ledger.Query, v, w ledger.HostView) int {
	return cmp.Or(
		-cmp.Compare(preferred(q.Wishes, v), preferred(q.Wishes, w)),
		cmp.Compare(v.Booked.Memory(), w.Booked.Memory()),
		cmp.Compare(v.Booked.CPU(), w.Booked.CPU()),
		cmp.Compare(v.ID, w.ID),
	)
}

func wished(w *ledger.Wishes, v ledger.HostView) bool {
	return w == nil || (v.Labels.MatchesFilter(w.Required) && w.Rules.Admit(v.Labels) && !slices.Contains(w.Avoid, v.ID))
}

func preferred(w *ledger.Wishes, v ledger.HostView) int {
	n := 0
	if w != nil {
		for _, l := range w.Preferred {
			if v.Labels.Value(l.Key) == l.Value {
				n++
			}
		}
	}
	return n
}

// left is what is left by the accounts alone.
func left(v ledger.HostView) resource.Vector {
	free := v.Limit
	for dimension, most := range v.Limit.All() {
		booked, _ := v.Booked.Get(dimension)
		free = free.With(dimension, max(0, most-booked))
	}
	return free
}

// has reports whether there is as much of each dimension as the request asks for. What is not
// listed is not there.
func has(available, request resource.Vector) bool {
	for dimension, asked := range request.All() {
		if there, _ := available.Get(dimension); asked > 0 && asked > there {
			return false
		}
	}
	return true
}
