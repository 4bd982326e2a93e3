package resource

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// orderModel looks at every name separately.
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

// closeVectors generates vectors of few and small quantities, so that order relations between three
// of them are common.
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
	// Another implementation tested for a reservation with "greater than zero in every dimension",
	// and so forgot to release this one.
	v := Vector{}.WithMemory(1 << 30).WithCPU(0).WithInstances(1)
	if !v.MoreThan(Vector{}) || v.IsZero() {
		t.Errorf("%v is more than nothing", v)
	}
}

func TestWhatTakesAllIsWhatLeavesNothing(t *testing.T) {
	has := Vector{}.WithMemory(8).WithCPU(4).With("disk", 0).With("gpu", 2)
	for _, c := range []struct {
		taken Vector
		want  []string
	}{
		{Vector{}, nil},
		{Vector{}.WithMemory(7).WithCPU(3).With("gpu", 1), nil},
		{Vector{}.WithMemory(8).WithCPU(5).With("gpu", 2), []string{Memory, CPU, "gpu"}},
		{Vector{}.WithMemory(0).With("disk", 0), nil},
		{Vector{}.With("disk", 1).With("gpu", 1), []string{"disk"}},
		{Vector{}.WithInstances(9).With("licence", 9), nil},
	} {
		if diff := cmp.Diff(c.want, c.taken.TakesAllOf(has)); diff != "" {
			t.Errorf("%v of %v (-want +got):\n%s", c.taken, has, diff)
		}
	}
}
