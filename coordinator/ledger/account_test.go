package ledger

import (
	"testing"

	"github.com/bursar/bursar/resource"
)

// allDimensions are the fixed ones, and a custom one.
func allDimensions() []string {
	return []string{resource.Memory, resource.CPU, resource.Instances, "gpu"}
}

// full is an account that has every kind of number in every dimension: of a limit of 100 it
// protects 10, uses 20, has reserved 5, and others have 3, which leaves 62.
func full(t *testing.T) *account {
	t.Helper()
	a := &account{complete: true}
	var limit, protected, used, reserved resource.Vector
	for _, dimension := range allDimensions() {
		limit, protected = limit.With(dimension, 100), protected.With(dimension, 10)
		used, reserved, a.others = used.With(dimension, 20), reserved.With(dimension, 5), a.others.With(dimension, 3)
	}
	a.setLimit(limit, protected)
	a.add(Active, used)
	a.add(Reserved, reserved)
	return a
}

func TestWhatIsProtectedUsedReservedOrOthersIsNotAvailable(t *testing.T) {
	const left = 62
	for _, dimension := range allDimensions() {
		a := full(t)
		if got := a.available(dimension); got != left {
			t.Errorf("%s: %d available; want %d", dimension, got, left)
		}
		if got := a.mostOf(dimension); got != 90 {
			t.Errorf("%s: %d if nothing were used; want 90", dimension, got)
		}
		exact, more := resource.Vector{}.With(dimension, left), resource.Vector{}.With(dimension, left+1)
		if !a.fits(exact) || a.fits(more) {
			t.Errorf("%s: what is left fits: %t, one more fits: %t; want the first alone", dimension, a.fits(exact), a.fits(more))
		}
		if list := a.shortfalls(nil, more); len(list) != 1 || list[0].Available != left || list[0].Limit != 90 || list[0].Note != "" {
			t.Errorf("%s: told %+v; want one shortfall with %d of 90", dimension, list, left)
		}
	}
}

// A reader sees what is left of each dimension that is limited, and 0 if more is used than that.
func TestAnAccountShowsWhatIsAvailable(t *testing.T) {
	a := full(t)
	want := resource.Vector{}
	for _, dimension := range allDimensions() {
		want = want.With(dimension, 62)
	}
	if got := a.info().Available; !got.Equal(want) {
		t.Errorf("available %v; want %v", got, want)
	}
	a.setLimit(resource.Vector{}.WithMemory(1).WithCPU(29), resource.Vector{})
	if got, want := a.info().Available, (resource.Vector{}).WithMemory(0).WithCPU(1); !got.Equal(want) || !a.info().OverLimit {
		t.Errorf("with a limit below the use %v are available; want %v", got, want)
	}
}

// What is not checked against the limit, such as adopted engines, is counted unless the sum
// overflows.
func TestAnAccountCountsWhatTheNumbersHold(t *testing.T) {
	a := full(t)
	for _, test := range []struct {
		quantity int64
		can      bool
	}{{0, true}, {-1, false}, {unlimited - 25, true}, {unlimited - 24, false}} {
		if got := a.canCount(resource.Vector{}.WithMemory(test.quantity)); got != test.can {
			t.Errorf("%d in addition to the 25 that are counted: %t, want %t", test.quantity, got, test.can)
		}
	}
}

// An account may be over its limit because that shrank or engines were adopted. This ends when
// enough was given back, and no grant may cause it again.
func TestAnAccountIsOverItsLimitUntilEnoughIsGivenBack(t *testing.T) {
	a := full(t)
	memory := func(n int64) resource.Vector { return resource.Vector{}.WithMemory(n) }
	a.setLimit(memory(10), resource.Vector{}) // 20 are used, 5 reserved and 3 others'
	for _, step := range []struct {
		what string
		do   func()
		over bool
	}{
		{"a smaller limit", func() {}, true},
		{"less, and not enough", func() { a.subtract(Active, memory(10)) }, true},
		{"confirmed while over it", func() { a.replace(Reserved, Active, memory(5), memory(5)) }, true},
		{"enough", func() { a.subtract(Active, memory(8)) }, false},
		{"confirmed within it", func() { a.replace(Active, Reserved, memory(5), memory(5)) }, false},
	} {
		step.do()
		if a.exceeded != step.over || a.overLimit() != step.over {
			t.Errorf("%s: noted %t, is %t; want %t", step.what, a.exceeded, a.overLimit(), step.over)
		}
	}
	a.replace(Reserved, Active, memory(5), memory(9)) // nobody who checks would let that in
	if a.exceeded || !a.overLimit() {
		t.Error("a change that was never checked passes for a limit that shrank: the audit would not tell")
	}
}
