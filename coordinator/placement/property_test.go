package placement_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/bursar/bursar/coordinator/hostlabels"
	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/placement"
	"github.com/bursar/bursar/label"
	"github.com/bursar/bursar/resource"
)

// machine drives an Index and the model with the same hosts and compares every answer.
type machine struct {
	*rapid.T
	model
	index *placement.Index
	turn  uint64
	// views is the most views there have been, to show that the test reaches them.
	views int

	memories, cpus []int64 // quantities to draw from; none: any
	requests       []resource.Vector
	wishes         []*ledger.Wishes
}

const (
	mostSlots = 120
	mib       = 1 << 20
)

func newMachine(t *rapid.T) *machine {
	m := &machine{T: t}
	m.policy = rapid.SampledFrom([]placement.Policy{placement.Spread, placement.Binpack}).Draw(t, "policy")
	m.hosts = map[ledger.Slot]ledger.HostView{}
	m.index = placement.New(m.policy)
	if rapid.Bool().Draw(t, "few sizes") {
		m.memories = []int64{0, 4 * gib, 5*gib - 1, 5 * gib, 5*gib + 1, 64 * gib}
		m.cpus = []int64{0, 1000, 1999, 2000, 2001, 16_000}
	}
	m.requests = rapid.SliceOfN(rapid.Custom(m.request), 1, 6).Draw(t, "requests")
	m.wishes = append(rapid.SliceOfN(rapid.Custom(wishes), 0, 5).Draw(t, "wishes"), nil)
	return m
}

func (m *machine) memory(t *rapid.T) int64 {
	if m.memories != nil {
		return rapid.SampledFrom(m.memories).Draw(t, "memory")
	}
	if rapid.IntRange(0, 20).Draw(t, "memory kind") == 0 {
		return rapid.Int64Range(0, resource.MaxQuantity).Draw(t, "memory")
	}
	return rapid.Int64Range(0, 8*1024).Draw(t, "memory") * mib
}

func (m *machine) cpu(t *rapid.T) int64 {
	if m.cpus != nil {
		return rapid.SampledFrom(m.cpus).Draw(t, "cpu")
	}
	if rapid.IntRange(0, 20).Draw(t, "cpu kind") == 0 {
		return rapid.Int64Range(0, resource.MaxQuantity).Draw(t, "cpu")
	}
	return rapid.Int64Range(0, 4000).Draw(t, "cpu")
}

func (m *machine) request(t *rapid.T) resource.Vector {
	r := resource.Vector{}.WithMemory(m.memory(t)).WithCPU(m.cpu(t))
	switch rapid.IntRange(0, 4).Draw(t, "request kind") {
	case 0:
		r = r.WithInstances(rapid.Int64Range(0, 3).Draw(t, "instances"))
	case 1:
		r = r.WithInstances(1).With("gpu", rapid.Int64Range(0, 3).Draw(t, "gpu"))
	case 2:
		r = r.With("gpu", 1).With("disk", rapid.Int64Range(0, 2).Draw(t, "disk"))
	}
	return r
}

func labels(t *rapid.T) label.Set {
	set := label.Of("zone", rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "zone"))
	if rapid.Bool().Draw(t, "ssd") {
		set = set.With("disk", "ssd")
	}
	if rapid.Bool().Draw(t, "racked") {
		set = set.With("rack", fmt.Sprint(rapid.IntRange(0, 5).Draw(t, "rack")))
	}
	return set
}

func wishes(t *rapid.T) *ledger.Wishes {
	var w ledger.Wishes
	some := func() label.Set {
		var set label.Set
		for _, l := range labels(t) {
			if rapid.IntRange(0, 3).Draw(t, "any") == 0 {
				l.Value = label.Any
			}
			if rapid.Bool().Draw(t, "with") {
				set = append(set, l)
			}
		}
		return set
	}
	if rapid.Bool().Draw(t, "required") {
		w.Required = some()
	}
	if rapid.Bool().Draw(t, "preferred") {
		w.Preferred = some()
	}
	if rapid.IntRange(0, 3).Draw(t, "avoids") == 0 {
		for range rapid.IntRange(0, 40).Draw(t, "avoided") {
			w.Avoid = append(w.Avoid, id(ledger.Slot(rapid.IntRange(0, mostSlots).Draw(t, "avoid"))))
		}
	}
	if rapid.IntRange(0, 2).Draw(t, "ruled") == 0 {
		w.Rules = &ledger.Rules{Required: rules(t, "required rules"), Preferred: rules(t, "preferred rules"), Avoided: rules(t, "avoided rules")}
	}
	return &w
}

func rules(t *rapid.T, name string) (list []label.Rule) {
	for _, text := range rapid.SliceOfN(rapid.SampledFrom([]string{"zone in (a,b)", "zone!=a", "disk", "!rack", "rack>2", "rack<2"}), 0, 2).Draw(t, name) {
		rule, err := label.ParseRule(text)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, rule)
	}
	return list
}

func id(slot ledger.Slot) string { return fmt.Sprintf("host-%d", slot) }

func rarely(t *rapid.T, what string) bool { return rapid.IntRange(0, 9).Draw(t, what) == 0 }

// view draws a host whose numbers agree with each other, except if nothing requires that.
func (m *machine) view(t *rapid.T, slot ledger.Slot) ledger.HostView {
	v := ledger.HostView{
		ID: id(slot), Labels: labels(t),
		LoadMillis: rapid.Int64Range(0, 2500).Draw(t, "load"),
		Health:     !rarely(t, "sick"), Measured: !rarely(t, "unmeasured"), Held: rarely(t, "held"),
	}
	v.Limit = resource.Vector{}.WithMemory(m.memory(t)).WithCPU(m.cpu(t))
	if rapid.IntRange(0, 4).Draw(t, "countless") > 0 {
		v.Limit = v.Limit.WithInstances(rapid.Int64Range(0, 4).Draw(t, "instances"))
	}
	if rapid.IntRange(0, 2).Draw(t, "gpus") == 0 {
		v.Limit = v.Limit.With("gpu", rapid.Int64Range(0, 4).Draw(t, "gpu"))
	}
	if rapid.IntRange(0, 2).Draw(t, "disks") == 0 {
		v.Limit = v.Limit.With("disk", rapid.Int64Range(0, 4).Draw(t, "disk"))
	}
	return m.use(t, v)
}

// use draws what is booked and available of the limit.
func (m *machine) use(t *rapid.T, v ledger.HostView) ledger.HostView {
	v.Booked, v.Available = resource.Vector{}, resource.Vector{}
	full := rarely(t, "full")
	for dimension, limit := range v.Limit.All() {
		booked := int64(0)
		switch {
		case full:
			booked = limit
		case rapid.Bool().Draw(t, "used"):
			booked = rapid.Int64Range(0, limit+limit/8).Draw(t, "booked")
		}
		left := max(0, limit-booked)
		if dimension == resource.Memory && rapid.Bool().Draw(t, "measured") {
			left = rapid.Int64Range(0, left).Draw(t, "headroom")
		}
		v.Booked, v.Available = v.Booked.With(dimension, booked), v.Available.With(dimension, left)
	}
	return v
}

func (m *machine) put(slot ledger.Slot, v ledger.HostView) {
	m.hosts[slot] = v
	m.index.Put(slot, v)
}

func (m *machine) book(slot ledger.Slot, v ledger.HostView) {
	m.hosts[slot] = v
	m.index.Book(slot, v.Available, v.Booked)
}

// some draws a slot of a host that is there.
func (m *machine) some() ledger.Slot { return rapid.SampledFrom(m.slots()).Draw(m.T, "slot") }

func (m *machine) query() ledger.Query {
	m.turn++
	q := ledger.Query{
		Request: rapid.SampledFrom(m.requests).Draw(m.T, "request"),
		Wishes:  rapid.SampledFrom(m.wishes).Draw(m.T, "wish"),
		Turn:    m.turn,
	}
	return q
}

// ask compares every answer to a query, and returns the choice.
func (m *machine) ask(q ledger.Query) ledger.Slot {
	best, found := m.best(q)
	slot := m.index.Choose(q)
	switch {
	case found != (slot != ledger.NoSlot):
		m.Fatalf("Choose(%+v) = %d: brute force finds one: %t", q, slot, found)
	case found && !m.fits(slot, q):
		m.Fatalf("Choose(%+v) = %d, where it does not fit: %+v", q, slot, m.hosts[slot])
	case found && m.score(slot, q) != best:
		m.Fatalf("Choose(%+v) = %d with %+v: the best is %+v", q, slot, m.score(slot, q), best)
	}
	if got, want := m.index.Possible(q), m.possible(q); got != want {
		m.Fatalf("Possible(%+v) = %t", q, got)
	}
	if diff := cmp.Diff(m.survey(q), m.index.Survey(q)); diff != "" {
		m.Fatalf("Survey(%+v): -want +got\n%s", q, diff)
	}
	m.askClosest(q)
	m.askLargest(q)
	m.askCensus(q)
	free, limits := m.index.Views()
	m.views = max(m.views, free+limits)
	return slot
}

// askCensus compares how many hosts meet each condition.
func (m *machine) askCensus(q ledger.Query) {
	w := wishesOf(q)
	var must []label.Rule
	if w.Rules != nil {
		must = slices.Concat(w.Rules.Required, w.Rules.Avoided)
	}
	for i, condition := range hostlabels.Conditions(w.Required, must, nil) {
		want := 0
		for _, v := range m.hosts {
			if i < len(w.Required) && hasAll(v.Labels, w.Required[i:i+1]) || i >= len(w.Required) && must[i-len(w.Required)].Holds(v.Labels) {
				want++
			}
		}
		if got := m.index.Census().Meet(condition); got != want {
			m.Fatalf("%d hosts meet condition %d of %+v; want %d", got, i, w, want)
		}
	}
}

func (m *machine) askClosest(q ledger.Query) {
	level, share, found := m.closest(q)
	slot := m.index.Closest(q)
	if found != (slot != ledger.NoSlot) {
		m.Fatalf("Closest(%+v) = %d: brute force finds one: %t", q, slot, found)
	}
	if !found {
		return
	}
	if !wanted(m.hosts[slot], q) {
		m.Fatalf("Closest(%+v) = %d, which is not wanted", q, slot)
	}
	if l, s := m.nearness(slot, q); l != level || s != share {
		m.Fatalf("Closest(%+v) = %d at %d, %g: the closest is at %d, %g", q, slot, l, s, level, share)
	}
}

func (m *machine) askLargest(q ledger.Query) {
	share, found := m.largest(q)
	slot := m.index.Largest(q)
	switch {
	case found != (slot != ledger.NoSlot):
		m.Fatalf("Largest(%+v) = %d: brute force finds one: %t", q, slot, found)
	case found && (!wanted(m.hosts[slot], q) || sizeShare(m.hosts[slot], q) != share):
		m.Fatalf("Largest(%+v) = %d with %g: the largest has %g", q, slot, sizeShare(m.hosts[slot], q), share)
	}
}

func (m *machine) audit() {
	if err := m.index.Audit(); err != nil {
		m.Fatal(err)
	}
}

// grant books a request on the chosen host, as the ledger does.
func (m *machine) grant(slot ledger.Slot, request resource.Vector) {
	v := m.hosts[slot]
	for dimension, n := range request.All() {
		left, _ := v.Available.Get(dimension)
		booked, _ := v.Booked.Get(dimension)
		if n > 0 {
			v.Available, v.Booked = v.Available.With(dimension, left-n), v.Booked.With(dimension, booked+n)
		}
	}
	m.book(slot, v)
}

// TestIndexEqualsBruteForce is the proof that the index is right: whatever happens to the hosts,
// every answer is what looking at all of them gives.
func TestIndexEqualsBruteForce(t *testing.T) {
	views := 0
	rapid.Check(t, func(t *rapid.T) {
		m := newMachine(t)
		t.Repeat(map[string]func(*rapid.T){
			"put": func(t *rapid.T) {
				m.T = t
				slot := ledger.Slot(rapid.IntRange(0, mostSlots).Draw(t, "slot"))
				m.put(slot, m.view(t, slot))
			},
			"put alike": func(t *rapid.T) {
				m.T = t
				first := rapid.IntRange(0, mostSlots).Draw(t, "first")
				v := m.view(t, 0)
				for slot := first; slot < min(first+50, mostSlots); slot++ {
					v.ID = id(ledger.Slot(slot))
					m.put(ledger.Slot(slot), v)
				}
			},
			"use": func(t *rapid.T) {
				m.T = t
				if len(m.hosts) > 0 {
					slot := m.some()
					m.book(slot, m.use(t, m.hosts[slot]))
				}
			},
			"rename": func(t *rapid.T) {
				m.T = t
				if len(m.hosts) > 0 {
					slot := m.some()
					v := m.hosts[slot]
					if v.ID == id(slot) {
						v.ID += "-again"
					} else {
						v.ID = id(slot)
					}
					m.put(slot, v)
				}
			},
			"remove": func(t *rapid.T) {
				m.T = t
				slot := ledger.Slot(rapid.IntRange(0, mostSlots+1).Draw(t, "slot")) // there or not
				delete(m.hosts, slot)
				m.index.Remove(slot)
			},
			"burst": func(t *rapid.T) {
				m.T = t
				q := m.query()
				for range 20 {
					q.Turn++
					slot := m.ask(q)
					if slot == ledger.NoSlot {
						break
					}
					m.grant(slot, q.Request)
				}
			},
			"next best": func(t *rapid.T) {
				m.T = t
				q := m.query()
				rejected := map[ledger.Slot]bool{}
				q.Rejected = func(slot ledger.Slot) bool { return rejected[slot] }
				for slot := m.ask(q); slot != ledger.NoSlot; slot = m.ask(q) {
					rejected[slot] = true
				}
			},
			"": func(t *rapid.T) {
				m.T = t
				m.audit()
				m.ask(m.query())
			},
		})
		views = max(views, m.views)
	})
	if views <= 2 {
		t.Errorf("no view was ever made: the property does not reach them")
	}
}
