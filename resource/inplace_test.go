package resource

import (
	"errors"
	"math"
	"testing"

	"pgregory.net/rapid"
)

// TestInPlaceFormsAreTheValueForms runs additions and subtractions on a balance and on the values that it should have, with plain
// copies of the balance taken and changed in between.
func TestInPlaceFormsAreTheValueForms(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var balance, want Vector
		type handout struct{ got, want Vector }
		var handedOut []handout
		for range rapid.IntRange(1, 20).Draw(t, "steps") {
			w := vectors().Draw(t, "w")
			switch rapid.IntRange(0, 4).Draw(t, "what") {
			case 0, 1:
				next, wantErr := want.Add(w)
				if err := balance.AddInPlace(w); !errors.Is(err, errorKind(wantErr)) {
					t.Fatalf("add %v: %v, want %v", w, err, wantErr)
				} else if err == nil {
					want = next
				}
			case 2:
				next, wantErr := want.Minus(w)
				if err := balance.MinusInPlace(w); !errors.Is(err, errorKind(wantErr)) {
					t.Fatalf("take %v: %v, want %v", w, err, wantErr)
				} else if err == nil {
					want = next
				}
			case 3: // what was handed out stays
				handedOut = append(handedOut, handout{balance.Clone(), want})
			case 4: // a trial on a plain copy does not reach the balance
				trial := balance
				if err := trial.AddInPlace(w); err == nil && !trial.Equal(must(t, want.Add, w)) {
					t.Fatalf("trial is %v", trial)
				}
				_ = trial.MinusInPlace(w)
			}
			if !balance.Equal(want) {
				t.Fatalf("balance is %v, want %v", balance, want)
			}
			for _, h := range handedOut {
				if !h.got.Equal(h.want) {
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

func TestWhatAVectorMakesDoesNotChangeWithIt(t *testing.T) {
	gpu := Vector{}.With("gpu", 1)
	var balance Vector
	succeed(t, balance.AddInPlace(gpu))

	made := map[string]Vector{
		"Clone":         balance.Clone(),
		"WithMemory":    balance.WithMemory(0).Without(Memory),
		"WithCPU":       balance.WithCPU(0).Without(CPU),
		"WithInstances": balance.WithInstances(0).Without(Instances),
		"With":          balance.With("tpu", 1).Without("tpu"),
		"Without":       balance.Without("tpu"),
		"Add":           must(t, balance.Add, Vector{}),
		"Add to":        must(t, Vector{}.Add, balance),
		"Minus":         must(t, balance.Minus, Vector{}),
		"Multiply":      must(t, balance.Multiply, 1),
		"Normalize":     must(t, Normalization{}.Apply, balance),
		"Resource":      Resource{Vector: balance}.Clone().Vector,
		"External":      Resource{}.WithPart(Address{Kind: "yarn", Path: "a"}, balance).Clone().External[0].Vector,
	}
	var other Vector
	for range 2 {
		succeed(t, other.AddInPlace(balance))
	}
	succeed(t, balance.AddInPlace(balance)) // also with itself
	for name, v := range made {
		if !v.Equal(gpu) {
			t.Errorf("%s changed to %v", name, v)
		}
	}
	two := Vector{}.With("gpu", 2)
	if !balance.Equal(two) || !other.Equal(two) {
		t.Errorf("balance is %v, other is %v, want %v", balance, other, two)
	}
	succeed(t, balance.MinusInPlace(balance))
	if !balance.Equal(Vector{}.With("gpu", 0)) {
		t.Errorf("balance is %v, want what it was made of, at zero", balance)
	}
}

func TestInPlaceErrorsLeaveTheVectorAlone(t *testing.T) {
	start := Vector{}.WithMemory(5).With("gpu", math.MaxInt64).With("tpu", 1)
	for _, test := range []struct {
		name string
		call func(*Vector) error
		want error
	}{
		{"a custom overflow", func(v *Vector) error { return v.AddInPlace(Vector{}.WithMemory(1).With("fpga", 1).With("gpu", 1)) }, ErrOverflow},
		{"a fixed overflow", func(v *Vector) error { return v.AddInPlace(Vector{}.WithMemory(math.MaxInt64).With("tpu", 1)) }, ErrOverflow},
		{"a negative operand", func(v *Vector) error { return v.AddInPlace(Vector{}.WithCPU(-1)) }, ErrOverflow},
		{"a negative custom operand", func(v *Vector) error { return v.AddInPlace(Vector{}.With("tpu", -1)) }, ErrOverflow},
		{"a fixed underflow", func(v *Vector) error { return v.MinusInPlace(Vector{}.WithMemory(6).With("tpu", 1)) }, ErrUnderflow},
		{"an unset fixed one", func(v *Vector) error { return v.MinusInPlace(Vector{}.WithCPU(1)) }, ErrUnderflow},
		{"a custom underflow", func(v *Vector) error { return v.MinusInPlace(Vector{}.WithMemory(1).With("gpu", 1).With("tpu", 2)) }, ErrUnderflow},
		{"an unset custom one", func(v *Vector) error { return v.MinusInPlace(Vector{}.With("zpu", 1)) }, ErrUnderflow},
		{"a negative operand to take", func(v *Vector) error { return v.MinusInPlace(Vector{}.With("tpu", -1)) }, ErrUnderflow},
	} {
		t.Run(test.name, func(t *testing.T) {
			v := start
			if err := test.call(&v); !errors.Is(err, test.want) {
				t.Errorf("error is %v, want %v", err, test.want)
			}
			if !v.Equal(start) {
				t.Errorf("became %v", v)
			}
		})
	}
}

// TestHotOperationsDoNotAllocate holds what the ledger does for every request.
func TestHotOperationsDoNotAllocate(t *testing.T) {
	for name, request := range map[string]Vector{
		"fixed":  Vector{}.WithMemory(4 << 30).WithCPU(2000).WithInstances(1),
		"custom": Vector{}.WithMemory(4<<30).With("fpga", 1).With("gpu", 2).With("licence", 3),
	} {
		available := Vector{}.WithMemory(1<<40).WithCPU(64000).WithInstances(100).With("fpga", 9).With("gpu", 8).With("licence", 7)
		account := &struct{ used Vector }{}
		succeed(t, account.used.AddInPlace(available))
		external := Resource{Vector: request}.WithPart(Address{Kind: "yarn", Path: "root.a"}, request)
		limit := Resource{Vector: available}.WithPart(Address{Kind: "yarn", Path: "root.a"}, available)
		ok := true
		for operation, run := range map[string]func(){
			"AddInPlace and MinusInPlace": func() {
				ok = ok && account.used.AddInPlace(request) == nil && account.used.MinusInPlace(request) == nil
			},
			"FitsWithin": func() {
				ok = ok && request.FitsWithin(account.used, Absent) && request.FitsWithin(available, Unlimited)
			},
			"Get": func() { _, set := account.used.Get("licence"); ok = ok && set },
			"All": func() {
				for _, quantity := range request.All() {
					ok = ok && quantity > 0
				}
			},
			"order": func() {
				ok = ok && available.MoreThan(request) && request.NotMoreThan(available) && !request.EqualTo(available)
			},
			"With of a fixed dimension": func() { ok = ok && !request.WithMemory(1).IsZero() },
			"Resource.Fits":             func() { ok = ok && external.Fits(limit, Absent) },
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
