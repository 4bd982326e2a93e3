package placement

import (
	"github.com/bursar/bursar/coordinator/hostlabels"
	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/resource"
)

// Index is the ledger's Placer. Make one with New.
type Index struct {
	policy  Policy
	fleet   fleet
	free    *directory // by available amounts
	limits  *directory // by the size of hosts
	search  search
	contest contest
	sizes   sizes
	census  hostlabels.Census
}

// New returns an Index without hosts.
func New(policy Policy) *Index {
	x := &Index{policy: policy, fleet: fleet{slots: make(map[string]ledger.Slot)}}
	x.free, x.limits = newDirectory(&x.fleet, available), newDirectory(&x.fleet, limit)
	x.search.fleet = &x.fleet
	x.contest.search, x.sizes.search = &x.search, &x.search
	return x
}

// Put adds or replaces the host in a slot. Of the data that the view points to it keeps only id and
// labels.
func (x *Index) Put(slot ledger.Slot, view ledger.HostView) {
	known := len(x.fleet.hosts)
	h := x.fleet.at(slot)
	if len(x.fleet.hosts) > known {
		x.free.grow()
		x.limits.grow()
	}
	x.fleet.setID(slot, h, view.ID)
	if there := h.present(); !there || !sameLabels(h.labels, view.Labels) {
		if there {
			x.census.Remove(h.labels)
		}
		x.census.Add(view.Labels)
	}
	if h.update(&view, x.policy) {
		x.free.reshape(slot, h)
		x.limits.reshape(slot, h)
		x.limits.put(slot, h)
	}
	x.free.put(slot, h)
}

// Book changes the available and booked amounts of the host in a slot, if there is one.
func (x *Index) Book(slot ledger.Slot, available, booked resource.Vector) {
	if slot < 0 || int(slot) >= len(x.fleet.hosts) {
		return
	}
	if h := &x.fleet.hosts[slot]; h.present() {
		h.book(&available, &booked, x.policy)
		x.free.put(slot, h)
	}
}

// Remove forgets the host in a slot, if there is one.
func (x *Index) Remove(slot ledger.Slot) {
	if slot < 0 || int(slot) >= len(x.fleet.hosts) {
		return
	}
	h := &x.fleet.hosts[slot]
	if !h.present() {
		return
	}
	x.free.remove(slot, h)
	x.limits.remove(slot, h)
	delete(x.fleet.slots, h.id)
	x.census.Remove(h.labels)
	*h = host{}
}

// Choose returns a host of the best score among those on which the request fits now, or NoSlot.
func (x *Index) Choose(q ledger.Query) ledger.Slot {
	x.search.begin(&q)
	return x.choose(x.free)
}

// Possible reports whether a host with the required labels, and not to be avoided, has limits as
// large as the request. It does not check whether the host is held or rejected.
func (x *Index) Possible(q ledger.Query) bool {
	q.Rejected = nil
	return x.Sized(q) != ledger.NoSlot
}

// Sized returns a host that Possible looks for and that Rejected does not reject.
func (x *Index) Sized(q ledger.Query) ledger.Slot {
	x.search.begin(&q)
	x.search.preferred, x.search.better = nil, nil
	return x.choose(x.limits)
}

// Census counts the hosts by their labels. It is valid until the next change.
func (x *Index) Census() *hostlabels.Census { return &x.census }

// choose searches one of the directories.
func (x *Index) choose(d *directory) ledger.Slot {
	if !x.mayQualify(&x.search) {
		return ledger.NoSlot
	}
	return d.choose(&x.search)
}

// mayQualify reports whether some host may meet each condition of a search. It looks at the values
// of their labels and not at hosts. So an impossible request costs the same in a fleet of any size,
// even the first one.
func (x *Index) mayQualify(s *search) bool {
	for i := range s.must {
		if !x.census.MayHold(&s.must[i], true) {
			return false
		}
	}
	for i := range s.never {
		if !x.census.MayHold(&s.never[i], false) {
			return false
		}
	}
	return true
}

func (d *directory) choose(s *search) ledger.Slot {
	slot := d.view(s).choose(s)
	d.countWaste(s)
	return slot
}

// Survey counts the hosts that each filter removes. It looks at every host, or at one of Stride.
// Rejected hosts count as not measured, and held hosts like others.
func (x *Index) Survey(q ledger.Query) ledger.HostFilters {
	s := &x.search
	s.begin(&q)
	f := ledger.HostFilters{}
	for n := range x.fleet.hosts {
		h := &x.fleet.hosts[n]
		if !h.present() || !q.Surveys(ledger.Slot(n)) {
			continue
		}
		f.Total++
		switch {
		case !s.labelled(h) || s.avoids(ledger.Slot(n)):
			f.Labels++
		case h.state&healthy == 0:
			f.Health++
			if q.Closed != nil {
				q.Closed(ledger.Slot(n))
			}
		case h.state&measured == 0 || s.rejected != nil && s.rejected(ledger.Slot(n)):
			f.Measurement++
		case !s.fitsAccount(h):
			f.Books++
		case !s.fits(h):
			f.Headroom++
		default:
			f.Fit++
		}
	}
	return f
}

// fits reports whether the whole request is available.
func (s *search) fits(h *host) bool { return s.fit(&h.amounts[available]) && s.countsFit(h, available) }

func (s *search) fit(a *amounts) bool {
	return s.need.memory <= max(0, a.memory) && s.need.cpu <= max(0, a.cpu) && s.instances <= max(0, a.instances)
}

// fitsAccount reports whether the request fits by the account alone: within limit less booked.
func (s *search) fitsAccount(h *host) bool {
	most, used := &h.amounts[limit], &h.amounts[booked]
	if !s.fit(&amounts{most.memory - used.memory, most.cpu - used.cpu, most.instances - used.instances}) {
		return false
	}
	for i := range s.custom {
		if q := &s.custom[i]; q.Value > max(0, h.count(limit, q.Name)-h.count(booked, q.Name)) {
			return false
		}
	}
	return true
}
