package resource

import (
	"errors"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestSumIsTheValueForms applies additions and subtractions to a total and to the values that it
// must equal.
func TestSumIsTheValueForms(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var total Sum
		var want Vector
		type handout struct{ got, want Vector }
		var handedOut []handout
		for range rapid.IntRange(1, 20).Draw(t, "steps") {
			w := vectors().Draw(t, "w")
			operation, value := total.Add, want.Add
			if rapid.Bool().Draw(t, "take") {
				operation, value = total.Minus, want.Minus
			}
			next, wantErr := value(w)
			if err := operation(w); !errors.Is(err, errorKind(wantErr)) {
				t.Fatalf("with %v: %v, want %v", w, err, wantErr)
			} else if err == nil {
				want = next
			}
			if got := total.Vector(); !got.EqualTo(want) || got.Memory() != total.Memory() || got.CPU() != total.CPU() || got.Instances() != total.Instances() {
				t.Fatalf("total is %v, want %v", got, want)
			}
			for dimension, quantity := range want.All() {
				if got := total.Get(dimension); got != quantity {
					t.Fatalf("%s is %d, want %d", dimension, got, quantity)
				}
			}
			handedOut = append(handedOut, handout{total.Vector(), want})
			for _, h := range handedOut {
				if !h.got.EqualTo(h.want) {
					t.Fatalf("what was handed out as %v has become %v", h.want, h.got)
				}
			}
		}
	})
}

func errorKind(err error) error {
	for _, kind := range []error{ErrOverflow, ErrUnderflow} {
		if errors.Is(err, kind) {
			return kind
		}
	}
	return err
}

func TestSumDoesNotChangeWhatItWasGiven(t *testing.T) {
	one := Vector{}.With("gpu", 1)
	var total, other Sum
	succeed(t, total.Add(one))
	snapshot := total.Vector()
	succeed(t, other.Add(snapshot))
	succeed(t, total.Add(one))
	succeed(t, other.Minus(one))
	for name, v := range map[string]Vector{"what was added": one, "what was handed out": snapshot} {
		if !v.Equal(Vector{}.With("gpu", 1)) {
			t.Errorf("%s changed to %v", name, v)
		}
	}
	if total.Get("gpu") != 2 || other.Get("gpu") != 0 {
		t.Errorf("totals are %v and %v", total.Vector(), other.Vector())
	}
}

func TestSumErrorsLeaveItAlone(t *testing.T) {
	start := Vector{}.WithMemory(5).With("gpu", math.MaxInt64).With("tpu", 1)
	for _, test := range []struct {
		name string
		call func(*Sum) error
		want error
	}{
		{"a custom overflow", func(v *Sum) error { return v.Add(Vector{}.WithMemory(1).With("fpga", 1).With("gpu", 1)) }, ErrOverflow},
		{"a custom overflow of a name alone", func(v *Sum) error { return v.Add(Vector{}.With("gpu", 1)) }, ErrOverflow},
		{"a custom overflow of a later name", func(v *Sum) error { return v.Add(Vector{}.With("tpu", math.MaxInt64)) }, ErrOverflow},
		{"a fixed overflow", func(v *Sum) error { return v.Add(Vector{}.WithMemory(math.MaxInt64).With("tpu", 1)) }, ErrOverflow},
		{"a negative operand", func(v *Sum) error { return v.Add(Vector{}.WithCPU(-1)) }, ErrOverflow},
		{"a negative custom operand", func(v *Sum) error { return v.Add(Vector{}.With("tpu", -1)) }, ErrOverflow},
		{"a fixed underflow", func(v *Sum) error { return v.Minus(Vector{}.WithMemory(6).With("tpu", 1)) }, ErrUnderflow},
		{"an unset fixed one", func(v *Sum) error { return v.Minus(Vector{}.WithCPU(1)) }, ErrUnderflow},
		{"a custom underflow", func(v *Sum) error { return v.Minus(Vector{}.WithMemory(1).With("gpu", 1).With("tpu", 2)) }, ErrUnderflow},
		{"an unset custom one", func(v *Sum) error { return v.Minus(Vector{}.With("zpu", 1)) }, ErrUnderflow},
		{"a negative operand to take", func(v *Sum) error { return v.Minus(Vector{}.With("tpu", -1)) }, ErrUnderflow},
	} {
		t.Run(test.name, func(t *testing.T) {
			var v Sum
			succeed(t, v.Add(start))
			if err := test.call(&v); !errors.Is(err, test.want) {
				t.Errorf("error is %v, want %v", err, test.want)
			}
			if !v.Vector().Equal(start) {
				t.Errorf("became %v", v.Vector())
			}
		})
	}
}

func TestTakingNoneOfWhatIsNotThereChangesNothing(t *testing.T) {
	// before, at and after the existing name
	for _, name := range []string{"fpga", "gpu", "zpu"} {
		var v Sum
		succeed(t, v.Add(Vector{}.With("gpu", 1)))
		succeed(t, v.Minus(Vector{}.With(name, 0)))
		if got := v.Vector(); !got.Equal(Vector{}.With("gpu", 1)) {
			t.Errorf("without 0 of %s it is %v", name, got)
		}
	}
}

func TestSumErrorsNameTheDimension(t *testing.T) {
	var v Sum
	succeed(t, v.Add(Vector{}.With("gpu", math.MaxInt64)))
	if err := v.Add(Vector{}.With("gpu", 1)); !strings.Contains(err.Error(), "gpu") {
		t.Errorf("overflow: %v", err)
	}
	if err := v.Minus(Vector{}.With("tpu", 1)); !strings.Contains(err.Error(), "tpu") {
		t.Errorf("underflow: %v", err)
	}
}

// TestHotOperationsDoNotAllocate covers the ledger's operations for every request.
func TestHotOperationsDoNotAllocate(t *testing.T) {
	for name, request := range map[string]Vector{
		"fixed":  Vector{}.WithMemory(4 << 30).WithCPU(2000).WithInstances(1),
		"custom": Vector{}.WithMemory(4<<30).With("fpga", 1).With("gpu", 2).With("licence", 3),
	} {
		available := Vector{}.WithMemory(1<<40).WithCPU(64000).WithInstances(100).With("fpga", 9).With("gpu", 8).With("licence", 7)
		var used Sum
		succeed(t, used.Add(available))
		ok := true
		for operation, run := range map[string]func(){
			"Sum": func() {
				ok = ok && used.Add(request) == nil && used.Minus(request) == nil && used.Get("licence") >= 0
			},
			"Get": func() { quantity, set := available.Get("licence"); ok = ok && set && quantity == 7 },
			"All": func() {
				for _, quantity := range request.All() {
					ok = ok && quantity > 0
				}
			},
			"order": func() {
				ok = ok && available.MoreThan(request) && request.NotMoreThan(available) && !request.EqualTo(available)
			},
			"With of a fixed dimension": func() { ok = ok && !request.WithMemory(1).IsZero() },
		} {
			if allocations := testing.AllocsPerRun(100, run); allocations != 0 {
				t.Errorf("%s, %s: %v allocations", name, operation, allocations)
			}
		}
		if !ok {
			t.Errorf("%s: an operation failed", name)
		}
	}
	fixed := Vector{}.WithMemory(4 << 30).WithCPU(2000)
	if allocations := testing.AllocsPerRun(100, func() {
		sum, _ := fixed.Add(fixed)
		_, _ = sum.Minus(fixed)
		_, _ = sum.MultiplyRatio(1, 2)
	}); allocations != 0 {
		t.Errorf("value forms without custom parts: %v allocations", allocations)
	}
}
