package resource

import (
	"testing"

	"pgregory.net/rapid"
)

// orderModel answers by looking at every name on its own.
func orderModel(v, w Vector) (less, more bool) {
	for _, dimension := range names() {
		a, _ := v.Get(dimension)
		b, _ := w.Get(dimension)
		less, more = less || a < b, more || a > b
	}
	return less, more
}

func TestOrderIsDimensionByDimension(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v, w := vectors().Draw(t, "v"), vectors().Draw(t, "w")
		less, more := orderModel(v, w)
		for _, test := range []struct {
			name      string
			got, want bool
		}{
			{"MoreThan", v.MoreThan(w), more && !less},
			{"LessThan", v.LessThan(w), less && !more},
			{"EqualTo", v.EqualTo(w), !less && !more},
			{"NotLessThan", v.NotLessThan(w), !less},
			{"NotMoreThan", v.NotMoreThan(w), !more},
		} {
			if test.got != test.want {
				t.Fatalf("%v %s %v is %t", v, test.name, w, test.got)
			}
		}
	})
}

// close draws vectors of few and small quantities, so that order relations between three of them are common.
func closeVectors() *rapid.Generator[Vector] {
	return rapid.Custom(func(t *rapid.T) Vector {
		var v Vector
		for _, dimension := range []string{Memory, "gpu"} {
			if rapid.Bool().Draw(t, dimension+" set") {
				v = v.With(dimension, rapid.Int64Range(0, 2).Draw(t, dimension))
			}
		}
		return v
	})
}

func TestOrderLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v, w, x := closeVectors().Draw(t, "v"), closeVectors().Draw(t, "w"), closeVectors().Draw(t, "x")
		for _, law := range []struct {
			name string
			ok   bool
		}{
			{"nothing is more than itself", !v.MoreThan(v)},
			{"more and less are converse", v.MoreThan(w) == w.LessThan(v)},
			{"more is asymmetric", !v.MoreThan(w) || !w.MoreThan(v)},
			{"more is transitive", !v.MoreThan(w) || !w.MoreThan(x) || v.MoreThan(x)},
			{"not less is more or equal", v.NotLessThan(w) == (v.MoreThan(w) || v.EqualTo(w))},
			{"not more is less or equal", v.NotMoreThan(w) == (v.LessThan(w) || v.EqualTo(w))},
			{"not less both ways is equal", (v.NotLessThan(w) && w.NotLessThan(v)) == v.EqualTo(w)},
			{"equal is transitive", !v.EqualTo(w) || !w.EqualTo(x) || v.EqualTo(x)},
			{"adding keeps the order", !v.MoreThan(w) || must(t, v.Add, x).MoreThan(must(t, w.Add, x))},
			{"a sum is not less than its parts", must(t, v.Add, w).NotLessThan(v)},
			{"whatever is not zero is more than nothing", v.MoreThan(Vector{}) == !v.IsZero()},
		} {
			if !law.ok {
				t.Fatalf("%s: v=%v w=%v x=%v", law.name, v, w, x)
			}
		}
	})
}

func TestIncomparableVectorsAreInNoRelation(t *testing.T) {
	v := Vector{}.WithMemory(1 << 30).WithCPU(5000)
	w := Vector{}.WithMemory(2 << 30).WithCPU(1000)
	if v.MoreThan(w) || v.LessThan(w) || v.EqualTo(w) || v.NotLessThan(w) || v.NotMoreThan(w) {
		t.Errorf("%v and %v are comparable", v, w)
	}
}

func TestZeroDimensionsHideNothing(t *testing.T) {
	// The peer asked whether something was reserved by "greater than zero in every dimension", and so forgot to give this back.
	v := Vector{}.WithMemory(1 << 30).WithCPU(0).WithInstances(1)
	if !v.MoreThan(Vector{}) || v.IsZero() {
		t.Errorf("%v is more than nothing", v)
	}
}

func TestFitsWithinLooksAtWhatIsAskedFor(t *testing.T) {
	request := Vector{}.WithMemory(4<<30).WithCPU(0).With("gpu", 1).With("tpu", 0)
	for _, test := range []struct {
		name              string
		available         Vector
		absent, unlimited bool
	}{
		{"exactly enough", Vector{}.WithMemory(4<<30).With("gpu", 1), true, true},
		{"a zero asks for nothing of what there is none of", Vector{}.WithMemory(4<<30).WithCPU(0).With("gpu", 1).With("tpu", 0), true, true},
		{"too little of a fixed dimension", Vector{}.WithMemory(4<<30-1).With("gpu", 1), false, false},
		{"too little of a custom one", Vector{}.WithMemory(4<<30).With("gpu", 0), false, false},
		{"a fixed dimension is not listed", Vector{}.With("gpu", 1), false, true},
		{"a custom one is not listed", Vector{}.WithMemory(4<<30).With("fpga", 3).With("zpu", 3), false, true},
		{"nothing is listed", Vector{}, false, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := request.FitsWithin(test.available, Absent); got != test.absent {
				t.Errorf("on a host: %t", got)
			}
			if got := request.FitsWithin(test.available, Unlimited); got != test.unlimited {
				t.Errorf("within a quota: %t", got)
			}
		})
	}
	for _, dimension := range names() {
		if one := (Vector{}).With(dimension, 1); one.FitsWithin(Vector{}.With(dimension, 0), Absent) || one.FitsWithin(Vector{}, Absent) {
			t.Errorf("%v fits where there is none", one)
		}
	}
	zeros, overdrawn := Vector{}.WithMemory(0).WithCPU(0).WithInstances(0).With("gpu", 0), Vector{}
	for dimension := range zeros.All() {
		overdrawn = overdrawn.With(dimension, -1)
	}
	if !zeros.FitsWithin(overdrawn, Absent) || !zeros.FitsWithin(overdrawn, Unlimited) {
		t.Error("zeros fit everywhere")
	}
	if !(Vector{}).FitsWithin(Vector{}, Absent) {
		t.Error("nothing fits everywhere")
	}
}

func TestFitsWithinAgreesWithTheOrderAndTheSum(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		request, available := vectors().Draw(t, "request"), vectors().Draw(t, "available")
		if got, want := request.FitsWithin(available, Absent), request.NotMoreThan(available); got != want {
			t.Fatalf("%v within %v on a host: %t", request, available, got)
		}
		listed := request
		for dimension := range request.All() {
			if !available.Has(dimension) {
				listed = listed.Without(dimension)
			}
		}
		if got, want := request.FitsWithin(available, Unlimited), listed.NotMoreThan(available); got != want {
			t.Fatalf("%v within %v in a quota: %t", request, available, got)
		}
		if !request.FitsWithin(must(t, request.Add, available), Absent) {
			t.Fatalf("%v does not fit within itself and more", request)
		}
	})
}
