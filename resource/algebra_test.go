package resource

import (
	"errors"
	"math"
	"math/big"
	"testing"

	"pgregory.net/rapid"
)

func TestAddIsCommutative(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v, w := vectors().Draw(t, "v"), vectors().Draw(t, "w")
		vw, wv := must(t, v.Add, w), must(t, w.Add, v)
		if !vw.Equal(wv) {
			t.Fatalf("%v and %v", vw, wv)
		}
	})
}

func TestAddIsAssociative(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v, w, x := vectors().Draw(t, "v"), vectors().Draw(t, "w"), vectors().Draw(t, "x")
		left := must(t, must(t, v.Add, w).Add, x)
		right := must(t, v.Add, must(t, w.Add, x))
		if !left.Equal(right) {
			t.Fatalf("%v and %v", left, right)
		}
	})
}

func TestMinusUndoesAdd(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v, w := vectors().Draw(t, "v"), vectors().Draw(t, "w")
		back := must(t, must(t, v.Add, w).Minus, w)
		if !back.EqualTo(v) {
			t.Fatalf("%v + %v - %v = %v", v, w, w, back)
		}
		for dimension := range v.All() {
			if !back.Has(dimension) {
				t.Fatalf("%s is no longer set", dimension)
			}
		}
	})
}

func TestMinusGoesWithNotMoreThan(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v, w := vectors().Draw(t, "v"), vectors().Draw(t, "w")
		difference, err := v.Minus(w)
		if w.NotMoreThan(v) != (err == nil) {
			t.Fatalf("%v - %v: %v", v, w, err)
		}
		if err != nil {
			if !errors.Is(err, ErrUnderflow) {
				t.Fatalf("%v - %v: %v", v, w, err)
			}
			return
		}
		if sum := must(t, difference.Add, w); !sum.EqualTo(v) {
			t.Fatalf("%v - %v + %v = %v", v, w, w, sum)
		}
		if len(modelOf(difference)) != len(modelOf(v)) {
			t.Fatalf("%v - %v = %v has other dimensions set", v, w, difference)
		}
	})
}

func TestMinusKeepsTheDimensionsOfItsLeftSide(t *testing.T) {
	v, w := Vector{}.WithMemory(2).With("gpu", 2), Vector{}.WithMemory(1).WithCPU(0).With("fpga", 0).With("gpu", 1).With("tpu", 0)
	if got, want := must(t, v.Minus, w), (Vector{}.WithMemory(1).With("gpu", 1)); !got.Equal(want) {
		t.Errorf("%v - %v = %v, want %v", v, w, got, want)
	}
}

func TestMultiplyIsRepeatedAdd(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v, n := vectors().Draw(t, "v"), rapid.Int64Range(0, 20).Draw(t, "n")
		product := must(t, v.Multiply, n)
		sum := must(t, v.Minus, v) // zeros in the same dimensions
		for range n {
			sum = must(t, sum.Add, v)
		}
		if !product.Equal(sum) {
			t.Fatalf("%v * %d = %v, want %v", v, n, product, sum)
		}
	})
}

func TestDivideUndoesMultiply(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v, n := vectors().Draw(t, "v"), rapid.Int64Range(1, 1000).Draw(t, "n")
		if back := must(t, must(t, v.Multiply, n).Divide, n); !back.Equal(v) {
			t.Fatalf("%v * %d / %d = %v", v, n, n, back)
		}
	})
}

func TestMultiplyRatioRoundsDownExactly(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := vectors().Draw(t, "v")
		num := rapid.Int64Range(0, math.MaxInt64).Draw(t, "num")
		den := rapid.Int64Range(1, math.MaxInt64).Draw(t, "den")
		got, err := v.MultiplyRatio(num, den)
		for dimension, a := range v.All() {
			want := new(big.Int).Mul(big.NewInt(a), big.NewInt(num))
			want.Quo(want, big.NewInt(den))
			if !want.IsInt64() {
				if !errors.Is(err, ErrOverflow) {
					t.Fatalf("%s: %d * %d / %d does not fit, error is %v", dimension, a, num, den, err)
				}
				return
			}
			if err != nil {
				continue // another dimension's error
			}
			if q, _ := got.Get(dimension); q != want.Int64() {
				t.Fatalf("%s: %d * %d / %d = %d, want %v", dimension, a, num, den, q, want)
			}
		}
		if err == nil && len(modelOf(got)) != len(modelOf(v)) {
			t.Fatalf("%v became %v", v, got)
		}
	})
}

func TestDivideVectorUndoesMultiplyVector(t *testing.T) {
	small := rapid.Custom(func(t *rapid.T) Vector {
		var v Vector
		for _, dimension := range names() {
			if rapid.Bool().Draw(t, dimension+" set") {
				v = v.With(dimension, rapid.Int64Range(1, 1000).Draw(t, dimension))
			}
		}
		return v
	})
	rapid.Check(t, func(t *rapid.T) {
		v, w := vectors().Draw(t, "v"), small.Draw(t, "w")
		if back := must(t, must(t, v.MultiplyVector, w).DivideVector, w); !back.Equal(v) {
			t.Fatalf("%v * %v / %v = %v", v, w, w, back)
		}
	})
}

func TestVectorFactorsLeaveUnsetDimensionsAlone(t *testing.T) {
	v := Vector{}.WithMemory(12).WithCPU(7).With("gpu", 5)
	w := Vector{}.WithMemory(4).WithInstances(9).With("gpu", 2).With("tpu", 3)
	if got := must(t, v.MultiplyVector, w); got.String() != "memory=48B,cpu=7m,gpu=10" {
		t.Errorf("product is %v", got)
	}
	if got := must(t, v.DivideVector, w); got.String() != "memory=3B,cpu=7m,gpu=2" {
		t.Errorf("quotient is %v", got)
	}
}

func TestArithmeticNeverLeavesItsRange(t *testing.T) {
	const most = math.MaxInt64
	for _, dimension := range []string{Memory, CPU, Instances, "gpu"} {
		one, full := Vector{}.With(dimension, 1), Vector{}.With(dimension, most)
		negative := Vector{}.With(dimension, -1)
		for _, test := range []struct {
			name string
			call func() (Vector, error)
			want error
		}{
			{"full + 1", func() (Vector, error) { return full.Add(one) }, ErrOverflow},
			{"full + full", func() (Vector, error) { return full.Add(full) }, ErrOverflow},
			{"1 + negative", func() (Vector, error) { return one.Add(negative) }, ErrOverflow},
			{"1 - full", func() (Vector, error) { return one.Minus(full) }, ErrUnderflow},
			{"none - 1", func() (Vector, error) { return Vector{}.Minus(one) }, ErrUnderflow},
			{"1 - negative", func() (Vector, error) { return one.Minus(negative) }, ErrUnderflow},
			{"full * 2", func() (Vector, error) { return full.Multiply(2) }, ErrOverflow},
			{"full * full", func() (Vector, error) { return full.Multiply(most) }, ErrOverflow},
			{"full * full / 2", func() (Vector, error) { return full.MultiplyRatio(most, 2) }, ErrOverflow},
			{"full * full / its upper half", func() (Vector, error) { return full.MultiplyRatio(most, most>>1) }, ErrOverflow},
			{"1 * -1", func() (Vector, error) { return one.Multiply(-1) }, ErrUnderflow},
			{"1 / 0", func() (Vector, error) { return one.Divide(0) }, ErrDivideByZero},
			{"1 / -1", func() (Vector, error) { return one.Divide(-1) }, ErrUnderflow},
			{"1 * 0 / 0", func() (Vector, error) { return one.MultiplyRatio(0, 0) }, ErrDivideByZero},
			{"full * vector", func() (Vector, error) { return full.MultiplyVector(full) }, ErrOverflow},
			{"1 / zero vector", func() (Vector, error) { return one.DivideVector(Vector{}.With(dimension, 0)) }, ErrDivideByZero},
		} {
			t.Run(dimension+" "+test.name, func(t *testing.T) {
				got, err := test.call()
				if !errors.Is(err, test.want) || !got.IsUnset() {
					t.Errorf("%v, %v; want none, %v", got, err, test.want)
				}
			})
		}
		if got := must(t, full.Multiply, 1); !got.Equal(full) {
			t.Errorf("full * 1 = %v", got)
		}
		if got := must(t, full.Minus, full); !got.Equal(Vector{}.With(dimension, 0)) {
			t.Errorf("full - full = %v", got)
		}
		if got := must(t, Vector{}.With(dimension, most-1).Add, one); !got.Equal(full) {
			t.Errorf("full - 1 + 1 = %v", got)
		}
	}
}
