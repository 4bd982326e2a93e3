package placement_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/placement"
	"github.com/bursar/bursar/label"
	"github.com/bursar/bursar/resource"
)

// place makes an index of the hosts, whose slots are their positions.
func place(policy placement.Policy, hosts ...ledger.HostView) *placement.Index {
	x := placement.New(policy)
	for i, v := range hosts {
		if v.ID == "" {
			v.ID = id(ledger.Slot(i))
		}
		x.Put(ledger.Slot(i), v)
	}
	return x
}

func labeled(v ledger.HostView, keysAndValues ...string) ledger.HostView {
	v.Labels = label.Of(keysAndValues...)
	return v
}

func with(v ledger.HostView, change func(*ledger.HostView)) ledger.HostView {
	change(&v)
	return v
}

// order asks again and again, rejecting what was chosen before.
func order(x *placement.Index, q ledger.Query) (slots []ledger.Slot) {
	q.Rejected = func(slot ledger.Slot) bool { return slices.Contains(slots, slot) }
	for {
		slot := x.Choose(q)
		if slot == ledger.NoSlot {
			return slots
		}
		slots = append(slots, slot)
	}
}

func wantOrder(t *testing.T, x *placement.Index, q ledger.Query, want ...ledger.Slot) {
	t.Helper()
	if diff := cmp.Diff(want, order(x, q)); diff != "" {
		t.Errorf("order of hosts: -want +got\n%s", diff)
	}
}

var (
	empty = host(256*gib, 64_000)
	small = ask(4*gib, 1000)
)

func TestRequiredLabelsMustBeThere(t *testing.T) {
	x := place(placement.Spread,
		labeled(empty, "zone", "a"),
		labeled(booked(empty, 128*gib, 0), "zone", "a", "disk", "ssd"),
		labeled(empty, "zone", "b", "disk", "ssd"),
		labeled(booked(empty, 128*gib, 0), "zone", "c", "disk", "ssd", "rack", "7"),
		empty,
	)
	required := func(keysAndValues ...string) ledger.Query {
		return wishing(small, ledger.Wishes{Required: label.Of(keysAndValues...)})
	}
	wantOrder(t, x, required("zone", "a", "disk", "ssd"), 1)
	wantOrder(t, x, required("zone", "a"), 0, 1)
	wantOrder(t, x, required("rack", label.Any), 3)
	wantOrder(t, x, required("zone", "d"))
}

func TestPreferredLabelsGoBeforeEverythingElse(t *testing.T) {
	x := place(placement.Spread,
		empty,
		labeled(booked(empty, 128*gib, 0), "zone", "a"),
		labeled(booked(empty, 64*gib, 0), "disk", "ssd"),
		labeled(booked(empty, 192*gib, 0), "zone", "a", "disk", "ssd"),
		labeled(booked(empty, 16*gib, 0), "zone", "b"),
	)
	q := wishing(small, ledger.Wishes{Preferred: label.Of("zone", "a", "disk", "ssd")})
	wantOrder(t, x, q, 3, 2, 1, 0, 4)
	q.Wishes.Required = label.Of("zone", label.Any)
	wantOrder(t, x, q, 3, 1, 4)
}

func TestAvoidedHostsAreLeftOut(t *testing.T) {
	x := place(placement.Spread, with(empty, func(v *ledger.HostView) { v.ID = "new" }), booked(empty, 64*gib, 0), booked(empty, 128*gib, 0))
	wantOrder(t, x, wishing(small, ledger.Wishes{Avoid: []string{"new", "nobody", id(2)}}), 1)

	t.Run("by the id they have now", func(t *testing.T) {
		x.Put(0, with(empty, func(v *ledger.HostView) { v.ID = "newer" }))
		wantOrder(t, x, wishing(small, ledger.Wishes{Avoid: []string{"new"}}), 0, 1, 2)
		wantOrder(t, x, wishing(small, ledger.Wishes{Avoid: []string{"newer"}}), 1, 2)
	})
	t.Run("not those that took their slot", func(t *testing.T) {
		x.Remove(1)
		x.Put(1, with(empty, func(v *ledger.HostView) { v.ID = "other" }))
		wantOrder(t, x, wishing(small, ledger.Wishes{Avoid: []string{id(1), "newer"}}), 1, 2)
	})
}

func TestUnhealthyAndUnmeasuredHostsAreLeftOut(t *testing.T) {
	x := place(placement.Spread,
		with(empty, func(v *ledger.HostView) { v.Health = false }),
		with(empty, func(v *ledger.HostView) { v.Measured = false }),
		with(empty, func(v *ledger.HostView) { v.Held = true }),
		booked(empty, 128*gib, 0),
	)
	wantOrder(t, x, small, 2, 3)
}

func TestBooksAndHeadroomMustSuffice(t *testing.T) {
	x := place(placement.Spread,
		booked(empty, 253*gib, 0), // too little memory by the accounts
		// by measurement
		with(booked(empty, 16*gib, 0), func(v *ledger.HostView) { v.Available = v.Available.WithMemory(4*gib - 1) }),
		booked(empty, 0, 63_001),
		with(empty, func(v *ledger.HostView) { v.Available = v.Available.WithInstances(0) }),
		booked(empty, 252*gib, 63_000), // just enough
	)
	wantOrder(t, x, small, 4)
}

func TestWhatAHostDoesNotListItDoesNotHave(t *testing.T) {
	x := place(placement.Spread, empty, with(empty, func(v *ledger.HostView) {
		v.Limit, v.Available = v.Limit.With("gpu", 2), v.Available.With("gpu", 1)
	}))
	gpus := func(n int64) ledger.Query {
		q := small
		q.Request = q.Request.With("gpu", n)
		return q
	}
	wantOrder(t, x, gpus(1), 1)
	wantOrder(t, x, gpus(2))
	if !x.Possible(gpus(2)) || x.Possible(gpus(3)) {
		t.Error("two could ever be had, three not")
	}
}

func TestZeroNeverBlocks(t *testing.T) {
	full := booked(empty, 256*gib, 64_000)
	full.Available = full.Available.WithInstances(0)
	x := place(placement.Spread, full)
	nothing := ledger.Query{Request: resource.Vector{}.WithMemory(0).WithCPU(0).WithInstances(0).With("gpu", 0)}
	wantOrder(t, x, nothing, 0)
	nothing.Request = resource.Vector{}
	wantOrder(t, x, nothing, 0)
	nothing.Request = nothing.Request.WithCPU(1)
	wantOrder(t, x, nothing)
}

func TestPolicies(t *testing.T) {
	hosts := []ledger.HostView{
		booked(empty, 128*gib, 1000),
		booked(empty, 16*gib, 48_000), // its cpu counts
		booked(empty, 254*gib, 0),     // does not fit
		empty,
		booked(host(32*gib, 8000), 8*gib, 1000), // a quarter of it, be it ever so small
	}
	wantOrder(t, place(placement.Spread, hosts...), small, 3, 4, 0, 1)
	wantOrder(t, place(placement.Binpack, hosts...), small, 1, 0, 4, 3)
}

// A host is in the last class when it is as good as full, and stays there when an adopted engine
// takes it over its limit.
func TestFullAndOverfullAreTheSame(t *testing.T) {
	used := func(gpus int64) ledger.HostView {
		v := with(empty, func(v *ledger.HostView) {
			v.Limit, v.Available = v.Limit.With("gpu", 64), v.Available.With("gpu", max(0, 64-gpus))
		})
		v.Booked = v.Booked.With("gpu", gpus)
		return v
	}
	x := place(placement.Spread, used(62), used(61), used(64), used(65))
	q := small
	q.Rejected = func(slot ledger.Slot) bool { return slot == 1 }
	got := map[ledger.Slot]bool{}
	for range 10 {
		q.Turn++
		got[x.Choose(q)] = true
	}
	if diff := cmp.Diff(map[ledger.Slot]bool{0: true, 2: true, 3: true}, got); diff != "" {
		t.Errorf("the last class: -want +got\n%s", diff)
	}
	q.Rejected = nil
	if slot := x.Choose(q); slot != 1 {
		t.Errorf("Choose = %d, not the least used", slot)
	}
}

func TestCustomCountablesCountAsUse(t *testing.T) {
	withGPUs := func(booked int64) ledger.HostView {
		return with(empty, func(v *ledger.HostView) {
			v.Limit, v.Booked, v.Available = v.Limit.With("gpu", 4), v.Booked.With("gpu", booked), v.Available.With("gpu", 4-booked)
		})
	}
	wantOrder(t, place(placement.Spread, withGPUs(3), booked(empty, 128*gib, 0), withGPUs(1)), small, 2, 1, 0)
}

func TestMeasuredLoadDecidesBetweenEquals(t *testing.T) {
	loaded := func(v ledger.HostView, millis int64) ledger.HostView {
		v.LoadMillis = millis
		return v
	}
	x := place(placement.Spread,
		loaded(empty, 2000),
		loaded(empty, 1999),
		loaded(booked(empty, 64*gib, 0), 0), // fuller: policy goes before load
		loaded(empty, 499),
		loaded(empty, 500),
	)
	wantOrder(t, x, small, 3, 4, 1, 0, 2)
}

func TestPossibleAsksForLimitsNotForWhatIsFree(t *testing.T) {
	x := place(placement.Spread,
		labeled(with(booked(empty, 256*gib, 64_000), func(v *ledger.HostView) { v.Health, v.Measured, v.Held = false, false, true }), "zone", "a"),
		labeled(host(64*gib, 8000), "zone", "b"),
	)
	for _, test := range []struct {
		name string
		q    ledger.Query
		want bool
	}{
		{"on the large one, sick and full as it is", ask(256*gib, 64_000), true},
		{"larger than all", ask(256*gib+1, 1), false},
		{"large, and the small one's label", wishing(ask(65*gib, 1000), ledger.Wishes{Required: label.Of("zone", "b")}), false},
		{"large, and not on the large one", wishing(ask(65*gib, 1000), ledger.Wishes{Avoid: []string{id(0)}}), false},
		{"small, and not on the large one", wishing(ask(64*gib, 1000), ledger.Wishes{Avoid: []string{id(0)}}), true},
		{"rejected now is not for ever", rejecting(ask(256*gib, 1), func(ledger.Slot) bool { return true }), true},
	} {
		if got := x.Possible(test.q); got != test.want {
			t.Errorf("%s: %t", test.name, got)
		}
	}
	x.Remove(0)
	if x.Possible(ask(65*gib, 1000)) {
		t.Error("possible on a host that is gone")
	}
	x.Put(1, labeled(host(128*gib, 8000), "zone", "b"))
	if !x.Possible(ask(65*gib, 1000)) {
		t.Error("impossible on a host that has grown")
	}
}

func TestPossibleDoesNotCareForPreferences(t *testing.T) {
	x, _ := racks(1000)
	if !x.Possible(wishing(small, ledger.Wishes{Preferred: label.Of("rack", "none")})) || x.Steps() > 8 {
		t.Errorf("%d steps", x.Steps())
	}
}

func TestPossibleFollowsCustomLimits(t *testing.T) {
	gpu := func(n int64) ledger.HostView {
		return with(empty, func(v *ledger.HostView) { v.Limit, v.Available = v.Limit.With("gpu", n), v.Available.With("gpu", 0) })
	}
	q := small
	q.Request = q.Request.With("gpu", 2)
	x := place(placement.Spread, slices.Repeat([]ledger.HostView{gpu(1)}, 100)...)
	for range 100 { // until there is a view of nothing
		if x.Possible(q) {
			t.Fatal("possible where hosts have one gpu")
		}
	}
	v := gpu(2)
	v.ID = id(7)
	x.Put(7, v)
	if !x.Possible(q) {
		t.Error("impossible on a host that has got a second gpu")
	}
	v = gpu(1)
	v.ID = id(7)
	x.Put(7, v)
	if x.Possible(q) {
		t.Error("possible on a host that has lost a gpu")
	}
}

func rejecting(q ledger.Query, rejected func(ledger.Slot) bool) ledger.Query {
	q.Rejected = rejected
	return q
}

func TestClosestHasTheMostToGive(t *testing.T) {
	gpu := func(v ledger.HostView, limit, free int64) ledger.HostView {
		v.Limit, v.Available = v.Limit.With("gpu", limit), v.Available.With("gpu", free)
		return v
	}
	sick := func(v *ledger.HostView) { v.Health = false }
	x := place(placement.Spread,
		booked(empty, 240*gib, 0),                   // half of the memory
		booked(empty, 232*gib, 0),                   // three quarters
		booked(empty, 0, 64_000-500),                // all memory, but an eighth of the cpu
		with(empty, sick),                           // everything, but closed
		gpu(booked(empty, 252*gib, 0), 1, 1),        // an eighth, with a gpu
		gpu(booked(empty, 224*gib, 0), 1, 0),        // everything, its gpu in use
		labeled(booked(empty, 248*gib, 0), "x", ""), // a quarter
	)
	q := ask(32*gib, 4000)
	withGPU := func(n int64) ledger.Query {
		q := q
		q.Request = q.Request.With("gpu", n)
		return q
	}
	for _, test := range []struct {
		name string
		q    ledger.Query
		want ledger.Slot
	}{
		{"memory and cpu", q, 5},
		{"that is not to be avoided", wishing(q, ledger.Wishes{Avoid: []string{id(5)}}), 1},
		{"with the label", wishing(q, ledger.Wishes{Required: label.Of("x", "")}), 6},
		{"no host has the label", wishing(q, ledger.Wishes{Required: label.Of("y", "")}), ledger.NoSlot},
		{"with a gpu", withGPU(1), 4},
		{"with a gpu, when its host is avoided", wishing(withGPU(1), ledger.Wishes{Avoid: []string{id(4)}}), 5},
		{"with more gpus than any has", withGPU(2), 5},
	} {
		if got := x.Closest(test.q); got != test.want {
			t.Errorf("%s: %d, want %d", test.name, got, test.want)
		}
	}
	if got := place(placement.Spread, with(booked(empty, 1, 0), sick), with(empty, sick)).Closest(q); got > 1 || got < 0 {
		t.Errorf("where all are closed: %d", got)
	}
}

func TestSurveyCountsWhatEachFilterRemoves(t *testing.T) {
	x := place(placement.Spread,
		// the first filter counts
		labeled(with(empty, func(v *ledger.HostView) { v.Health = false }), "zone", "b"),
		labeled(empty, "zone", "a"), // avoided
		labeled(with(empty, func(v *ledger.HostView) { v.Health, v.Measured = false, false }), "zone", "a"),
		labeled(with(booked(empty, 256*gib, 0), func(v *ledger.HostView) { v.Measured = false }), "zone", "a"),
		labeled(with(booked(empty, 253*gib, 0), func(v *ledger.HostView) { v.Available = v.Available.WithMemory(0) }), "zone", "a"),
		labeled(with(booked(empty, 252*gib, 0), func(v *ledger.HostView) { v.Available = v.Available.WithMemory(gib) }), "zone", "a"),
		labeled(empty, "zone", "a"),
		labeled(with(empty, func(v *ledger.HostView) { v.Held = true }), "zone", "a"),
	)
	q := wishing(small, ledger.Wishes{Required: label.Of("zone", "a"), Avoid: []string{id(1)}})
	want := ledger.HostFilters{Total: 8, Labels: 2, Health: 1, Measurement: 1, Books: 1, Headroom: 1, Fit: 2}
	if diff := cmp.Diff(want, x.Survey(q)); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	want.Fit, want.Measurement = 1, 2
	if diff := cmp.Diff(want, x.Survey(rejecting(q, func(slot ledger.Slot) bool { return slot == 6 }))); diff != "" {
		t.Errorf("one rejected: -want +got\n%s", diff)
	}
	var closed []ledger.Slot
	q.Closed = func(slot ledger.Slot) { closed = append(closed, slot) }
	x.Survey(q)
	if diff := cmp.Diff([]ledger.Slot{2}, closed); diff != "" {
		t.Errorf("told of closed hosts: -want +got\n%s", diff)
	}
}

// Of a large fleet one host of so many is looked at, another one at each turn.
func TestSurveyLooksAtOneOfSoMany(t *testing.T) {
	var views []ledger.HostView
	for range 103 {
		views = append(views, empty)
	}
	x := place(placement.Spread, views...)
	x.Remove(7)
	looked := 0
	for turn := range 10 {
		q := small
		q.Stride, q.Turn = 10, uint64(turn)
		f := x.Survey(q)
		if f.Total != f.Fit || f.Total < 9 || f.Total > 11 {
			t.Errorf("turn %d: got %+v; want 9 to 11 looked at", turn, f)
		}
		looked += f.Total
	}
	if looked != 102 {
		t.Errorf("ten turns looked at %d hosts; want each of 102 once", looked)
	}
}

func TestAnEmptyIndexHasNothing(t *testing.T) {
	x := placement.New(placement.Spread)
	x.Remove(0)
	x.Remove(ledger.NoSlot)
	if slot := x.Choose(small); slot != ledger.NoSlot {
		t.Errorf("Choose = %d", slot)
	}
	if slot := x.Closest(small); slot != ledger.NoSlot {
		t.Errorf("Closest = %d", slot)
	}
	if x.Possible(small) {
		t.Error("Possible")
	}
	if slot := x.Largest(small); slot != ledger.NoSlot {
		t.Errorf("Largest = %d", slot)
	}
	if diff := cmp.Diff(ledger.HostFilters{}, x.Survey(small)); diff != "" {
		t.Error(diff)
	}
}

func TestPolicyFromString(t *testing.T) {
	for text, want := range map[string]placement.Policy{"": placement.Spread, "spread": placement.Spread, "binpack": placement.Binpack} {
		got, err := placement.PolicyFromString(text)
		if err != nil || got != want {
			t.Errorf("%q: %v, %v", text, got, err)
		}
		if text != "" && got.String() != text {
			t.Errorf("%q prints as %q", text, got)
		}
	}
	if _, err := placement.PolicyFromString("Spread"); err == nil {
		t.Error("Spread is not spread")
	}
}
