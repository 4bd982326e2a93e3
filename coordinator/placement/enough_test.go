package placement_test

import (
	"testing"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/placement"
	"github.com/bursar/bursar/label"
	"github.com/bursar/bursar/resource"
)

// A host gives what it has left, to the last instance, byte, thousandth of a core and countable,
// and no more.
func TestWhatIsLeftIsEnoughForThatAndNoMore(t *testing.T) {
	left := resource.Vector{}.WithMemory(gib).WithCPU(500).WithInstances(1).With("gpu", 1)
	v := host(256*gib, 64_000)
	v.Limit = v.Limit.WithInstances(3).With("gpu", 2)
	v.Available = left
	v.Booked = v.Limit.WithMemory(255*gib).WithCPU(63_500).WithInstances(2).With("gpu", 1)
	full := v
	full.Available = resource.Vector{}.WithMemory(0).WithCPU(0).WithInstances(0).With("gpu", 0)
	full.Booked = v.Limit
	x, none := place(placement.Spread, v), place(placement.Spread, full)
	exact := ledger.Query{Request: left}
	if slot, f := x.Choose(exact), x.Survey(exact); slot != 0 || f.Fit != 1 {
		t.Errorf("for exactly what is left: host %d, %s", slot, f)
	}
	for _, dimension := range []string{resource.Memory, resource.CPU, resource.Instances, "gpu"} {
		most, _ := left.Get(dimension)
		more := ledger.Query{Request: left.With(dimension, most+1)}
		if slot, f := x.Choose(more), x.Survey(more); slot != ledger.NoSlot || f.Books != 1 {
			t.Errorf("for one more of %s: host %d, %s", dimension, slot, f)
		}
		one := ledger.Query{Request: resource.Vector{}.With(dimension, 1)}
		if slot, f := none.Choose(one), none.Survey(one); slot != ledger.NoSlot || f.Books != 1 {
			t.Errorf("for 1 of %s where nothing is left: host %d, %s", dimension, slot, f)
		}
		limit, _ := v.Limit.Get(dimension)
		if !x.Possible(ledger.Query{Request: resource.Vector{}.With(dimension, limit)}) || x.Possible(ledger.Query{Request: resource.Vector{}.With(dimension, limit+1)}) {
			t.Errorf("possible is not what the limit of %s says", dimension)
		}
	}
}

// One preference alone, of a signature that has no view yet.
func TestASinglePreferredLabelIsPreferred(t *testing.T) {
	other, ssd := labeled(empty, "disk", "hdd"), labeled(booked(empty, 200*gib, 1000), "disk", "ssd")
	wantOrder(t, place(placement.Spread, other, other, ssd, other), wishing(small, ledger.Wishes{Preferred: label.Of("disk", "ssd")}), 2, 0, 1, 3)
}

// A host whose instances are all in use is nearer than one that takes nothing at all.
func TestAHostWithoutInstancesLeftIsCloserThanAClosedOne(t *testing.T) {
	spent := with(empty, func(v *ledger.HostView) {
		v.Limit = v.Limit.WithInstances(4)
		v.Available = v.Available.WithInstances(0)
	})
	closed := with(empty, func(v *ledger.HostView) { v.Health = false })
	if got := place(placement.Spread, closed, spent).Closest(small); got != 1 {
		t.Errorf("the closest is host %d; want the one that would do if an engine ended", got)
	}
}

// A change or a removal of a host that is not there does no harm.
func TestHostsThatAreNotThere(t *testing.T) {
	x := place(placement.Spread, empty, empty)
	x.Remove(1)
	for _, slot := range []ledger.Slot{ledger.NoSlot, 1, 2, 1 << 20} {
		x.Book(slot, empty.Available, resource.Vector{})
		x.Remove(slot)
	}
	if err := x.Audit(); err != nil {
		t.Error(err)
	}
	wantOrder(t, x, small, 0)
}
