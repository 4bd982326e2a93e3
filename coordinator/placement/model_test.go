package placement_test

import (
	"cmp"
	"maps"
	"math/big"
	"slices"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/placement"
	"github.com/bursar/bursar/label"
	"github.com/bursar/bursar/resource"
)

// model answers what an Index answers by looking at every host, in the words of the package
// comment.
type model struct {
	policy placement.Policy
	hosts  map[ledger.Slot]ledger.HostView
}

// slots in order, so that a failure repeats.
func (m *model) slots() []ledger.Slot { return slices.Sorted(maps.Keys(m.hosts)) }

func wishesOf(q ledger.Query) ledger.Wishes {
	if q.Wishes == nil {
		return ledger.Wishes{}
	}
	return *q.Wishes
}

// wanted reports whether the host has the required labels and is not to be avoided.
func wanted(v ledger.HostView, q ledger.Query) bool {
	w := wishesOf(q)
	holds := func(r label.Rule) bool { return r.Holds(v.Labels) }
	if w.Rules != nil && (slices.ContainsFunc(w.Rules.Avoided, holds) || slices.ContainsFunc(w.Rules.Required, func(r label.Rule) bool { return !holds(r) })) {
		return false
	}
	return hasAll(v.Labels, w.Required) && !slices.Contains(w.Avoid, v.ID)
}

func hasAll(labels, required label.Set) bool {
	for _, l := range required {
		if have, found := labels.Get(l.Key); !found || l.Value != label.Any && have != l.Value {
			return false
		}
	}
	return true
}

func (m *model) fits(slot ledger.Slot, q ledger.Query) bool {
	v := m.hosts[slot]
	return wanted(v, q) && v.Health && v.Measured && (q.Rejected == nil || !q.Rejected(slot)) &&
		has(v.Available, q.Request)
}

// score is what makes a host better than another, most important first; larger is better.
type score struct{ matches, use, load int }

func (s score) compare(t score) int {
	return cmp.Or(cmp.Compare(s.matches, t.matches), cmp.Compare(s.use, t.use), cmp.Compare(s.load, t.load))
}

func (m *model) score(slot ledger.Slot, q ledger.Query) score {
	v := m.hosts[slot]
	var s score
	for _, l := range wishesOf(q).Preferred {
		if hasAll(v.Labels, label.Set{l}) {
			s.matches++
		}
	}
	if rules := wishesOf(q).Rules; rules != nil {
		for _, r := range rules.Preferred {
			if r.Holds(v.Labels) {
				s.matches++
			}
		}
	}
	for dimension, limit := range v.Limit.All() {
		booked, _ := v.Booked.Get(dimension)
		if limit == 0 || booked == 0 {
			continue
		}
		part := new(big.Int).Mul(big.NewInt(32), big.NewInt(booked))
		part.Div(part, big.NewInt(limit))
		s.use = max(s.use, int(min(part.Int64(), 31)))
	}
	if m.policy == placement.Spread {
		s.use = -s.use
	}
	for _, edge := range []int64{500, 1000, 2000} {
		if v.LoadMillis >= edge {
			s.load--
		}
	}
	return s
}

// best returns the best score among the hosts that fit.
func (m *model) best(q ledger.Query) (best score, found bool) {
	for _, slot := range m.slots() {
		if !m.fits(slot, q) {
			continue
		}
		if s := m.score(slot, q); !found || s.compare(best) > 0 {
			best, found = s, true
		}
	}
	return best, found
}

func (m *model) possible(q ledger.Query) bool {
	for _, v := range m.hosts {
		if wanted(v, q) && has(v.Limit, q.Request) {
			return true
		}
	}
	return false
}

// nearness orders hosts for Closest: the level, smaller is nearer, then the share, larger is
// nearer.
func (m *model) nearness(slot ledger.Slot, q ledger.Query) (level int, share float64) {
	v := m.hosts[slot]
	counts := q.Request.Without(resource.Memory).Without(resource.CPU)
	open := v.Health && v.Measured
	switch {
	case !has(v.Limit, counts) && !open:
		level = 4
	case !has(v.Limit, counts):
		level = 3
	case !open:
		level = 2
	case !has(v.Available, counts):
		level = 1
	}
	share = 1
	if need := q.Request.Memory(); need > 0 {
		share = min(share, float64(v.Available.Memory())/float64(need))
	}
	if need := q.Request.CPU(); need > 0 {
		share = min(share, float64(v.Available.CPU())/float64(need))
	}
	return level, share
}

func (m *model) closest(q ledger.Query) (level int, share float64, found bool) {
	for _, slot := range m.slots() {
		if !wanted(m.hosts[slot], q) {
			continue
		}
		if l, s := m.nearness(slot, q); !found || l < level || l == level && s > share {
			level, share, found = l, s, true
		}
	}
	return level, share, found
}

// sizeShare is the smallest part of what is asked for that a host would have if nothing ran there.
func sizeShare(v ledger.HostView, q ledger.Query) float64 {
	share := 1.0
	for dimension, asked := range q.Request.All() {
		if has, _ := v.Limit.Get(dimension); asked > has {
			share = min(share, float64(has)/float64(asked))
		}
	}
	return share
}

func (m *model) largest(q ledger.Query) (share float64, found bool) {
	for _, v := range m.hosts {
		if wanted(v, q) {
			share, found = max(share, sizeShare(v, q)), true
		}
	}
	return share, found
}

func (m *model) survey(q ledger.Query) (f ledger.HostFilters) {
	for slot, v := range m.hosts {
		f.Total++
		switch {
		case !wanted(v, q):
			f.Labels++
		case !v.Health:
			f.Health++
		case !v.Measured || q.Rejected != nil && q.Rejected(slot):
			f.Measurement++
		case !has(byTheBooks(v), q.Request):
			f.Books++
		case !has(v.Available, q.Request):
			f.Headroom++
		default:
			f.Fit++
		}
	}
	return f
}

// byTheBooks is limit less booked.
func byTheBooks(v ledger.HostView) resource.Vector {
	left := v.Limit
	for dimension, limit := range v.Limit.All() {
		booked, _ := v.Booked.Get(dimension)
		left = left.With(dimension, max(0, limit-booked))
	}
	return left
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
