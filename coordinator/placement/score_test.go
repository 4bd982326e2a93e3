package placement

import (
	"math"
	"testing"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/label"
	"github.com/bursar/bursar/resource"
)

func TestClassesOfUseAndLoadBeginWhereTheyAreSaidTo(t *testing.T) {
	for _, test := range []struct{ booked, limit, class int64 }{
		{0, 32, 0},
		{1, 32, 1},
		{31, 32, 31},
		{32, 32, 31},
		{40, 32, 31},
		{1, 33, 0},
		{1, 1, 31},
		{0, 1, 0},
		{-1, 32, 0},
		{0, 0, 0},
		{5, 0, 0},
		{5, -1, 0}, // a dimension that the host does not have
		{math.MaxInt64 - 1, math.MaxInt64, 31},
	} {
		if got := useClass(test.booked, test.limit); int64(got) != test.class {
			t.Errorf("%d of %d in use: class %d; want %d", test.booked, test.limit, got, test.class)
		}
	}
	for millis, class := range map[int64]int{0: 0, 499: 0, 500: 1, 999: 1, 1000: 2, 1999: 2, 2000: 3, 1 << 40: 3} {
		if got := loadClass(millis); got != class {
			t.Errorf("a load of %d: class %d; want %d", millis, got, class)
		}
	}
}

// Four steps to a doubling, at round numbers, and no step that falls.
func TestLevelsBeginAtRoundNumbers(t *testing.T) {
	for i, units := range []int64{0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32} {
		if got := level(units); got != i {
			t.Errorf("%d units are on level %d; want %d", units, got, i)
		}
		if got := level(units - 1); units > 0 && got != i-1 {
			t.Errorf("%d units are on level %d; want %d", units-1, got, i-1)
		}
	}
	for units, want := range map[int64]int{-1: 0, math.MinInt64: 0, math.MaxInt64: levels - 1} {
		if got := level(units); got != want {
			t.Errorf("%d units are on level %d; want %d", units, got, want)
		}
	}
	for bytes, want := range map[int64]int{1 << 30: memoryLevel(1<<30-1) + 1, 3 << 30: memoryLevel(3<<30-1) + 1, 14 << 30: memoryLevel(14<<30-1) + 1} {
		if got := memoryLevel(bytes); got != want {
			t.Errorf("%d bytes are on level %d, and one less on %d", bytes, got, want-1)
		}
	}
}

// To be told what is available and booked makes a host the same as to be told all of it.
func TestBookingAHostIsLearningIt(t *testing.T) {
	gpus := func(n int64) resource.Vector { return resource.Vector{}.WithMemory(8).With("gpu", n) }
	plain := resource.Vector{}.WithMemory(8)
	for name, test := range map[string]struct{ limit, before, free, used resource.Vector }{
		"nothing was booked":           {plain, plain, plain.WithMemory(5), plain.WithMemory(3)},
		"all was booked":               {plain, plain.WithMemory(0), plain, plain.WithMemory(0)},
		"countables are taken":         {gpus(4), gpus(4), gpus(1), gpus(3)},
		"the last countables are gone": {gpus(4), gpus(4), plain, plain},
		// of an engine that an agent has brought back
		"countables that it has none of": {plain, plain, plain, gpus(1)},
		"countables beyond its limit":    {plain, plain, gpus(1), plain},
	} {
		for _, load := range []int64{0, 5000} {
			view := ledger.HostView{ID: "h", Limit: test.limit, Available: test.before, LoadMillis: load, Held: load > 0, Health: true}
			var told, learned host
			told.update(&view, Spread)
			told.book(&test.free, &test.used, Spread)
			view.Available, view.Booked = test.free, test.used
			learned.update(&view, Spread)
			if told.amounts != learned.amounts || told.grade != learned.grade || told.state != learned.state {
				t.Errorf("%s: booked %+v, learned %+v", name, told, learned)
			}
			for _, of := range []aspect{available, limit, booked} {
				if got, want := told.count(of, "gpu"), learned.count(of, "gpu"); got != want {
					t.Errorf("%s: %d gpus in aspect %d; learned %d", name, got, of, want)
				}
			}
		}
	}
}

// Countables may be in any one of the three: what is there to give, what is left, what is booked.
func TestAHostLearnsItsCountables(t *testing.T) {
	one := resource.Vector{}.With("gpu", 1)
	for name, view := range map[string]ledger.HostView{
		"available":        {Available: one},
		"limit":            {Limit: one},
		"booked":           {Booked: one},
		"all are booked":   {Limit: one, Booked: one},
		"none is":          {Limit: one, Available: one},
		"none and its own": {Limit: one, Available: one, Booked: one},
	} {
		var h host
		h.update(&view, Spread)
		for of, v := range map[aspect]resource.Vector{available: view.Available, limit: view.Limit, booked: view.Booked} {
			want, _ := v.Get("gpu")
			if got := h.count(of, "gpu"); got != want {
				t.Errorf("%s: %d gpus in aspect %d; want %d", name, got, of, want)
			}
		}
		if changed := h.update(&view, Spread); changed {
			t.Errorf("%s: told the same again, the host has changed", name)
		}
	}
}

func TestLabelsAreTheSameIfEachIs(t *testing.T) {
	a := label.Of("zone", "a", "disk", "ssd")
	for name, test := range map[string]struct {
		a, b label.Set
		same bool
	}{
		"none":          {nil, label.Set{}, true},
		"the very same": {a, a, true},
		"equal ones":    {a, label.Of("zone", "a", "disk", "ssd"), true},
		"another value": {a, label.Of("zone", "b", "disk", "ssd"), false},
		"fewer":         {a, label.Of("disk", "ssd"), false},
		"the first":     {a, a[:1], false},
		"none any more": {a, nil, false},
	} {
		if sameLabels(test.a, test.b) != test.same || sameLabels(test.b, test.a) != test.same {
			t.Errorf("%s: the same is not %t", name, test.same)
		}
	}
}

// Beyond 2^20 places the top storey is as long as it must be.
func TestACellHoldsMorePlacesThanItsStoreysBranch(t *testing.T) {
	const places = 1<<20 + fan + 1
	var c cell
	for slot := range places {
		c.add(place{room{1, 1}, ledger.Slot(slot)})
	}
	c.update(places-1, room{2, 1})
	if got := c.visit(&seeker{need: room{2, 1}}, 0); got != places-1 {
		t.Errorf("found %d; want the one with the room, %d", got, places-1)
	}
	if got := c.visit(&seeker{need: room{2, 2}}, 0); got != ledger.NoSlot {
		t.Errorf("found %d; want none", got)
	}
}
