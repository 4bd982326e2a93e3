package resource

import (
	"fmt"
	"math"
	"math/bits"
)

// Add returns the sum; a dimension is set if either operand sets it. The error is ErrOverflow.
func (v Vector) Add(w Vector) (Vector, error) {
	return v.combine(w, func(dimension string, a, b int64) (int64, error) {
		sum := a + b
		if (a | b | sum) < 0 {
			return 0, fmt.Errorf("%w: %s: %d + %d", ErrOverflow, dimension, a, b)
		}
		return sum, nil
	})
}

// Minus returns the difference; the dimensions that v sets stay set. The error is ErrUnderflow if w
// is larger in some dimension.
func (v Vector) Minus(w Vector) (Vector, error) {
	difference, err := v.combine(w, func(dimension string, a, b int64) (int64, error) {
		if (a|b|(a-b)) < 0 || a < b {
			return 0, fmt.Errorf("%w: %s: %d - %d", ErrUnderflow, dimension, a, b)
		}
		return a - b, nil
	})
	if err != nil {
		return Vector{}, err
	}
	return difference.only(v), nil
}

// Multiply returns every quantity times n. The errors are ErrOverflow, and ErrUnderflow if n is
// negative.
func (v Vector) Multiply(n int64) (Vector, error) { return v.MultiplyRatio(n, 1) }

// Divide returns every quantity divided by n, rounded down. The errors are ErrDivideByZero, and
// ErrUnderflow if n is negative.
func (v Vector) Divide(n int64) (Vector, error) { return v.MultiplyRatio(1, n) }

// MultiplyRatio returns every quantity times num/den, exactly and then rounded down, so that a
// share never exceeds its part. The errors are those of Multiply and Divide.
func (v Vector) MultiplyRatio(num, den int64) (Vector, error) {
	return v.transform(func(dimension string, a int64) (int64, error) { return scale(dimension, a, num, den) })
}

// MultiplyVector returns v with each dimension multiplied by that of w. Dimensions that only one of
// them sets stay as in v.
func (v Vector) MultiplyVector(w Vector) (Vector, error) {
	return v.transform(func(dimension string, a int64) (int64, error) {
		if b, set := w.Get(dimension); set {
			return scale(dimension, a, b, 1)
		}
		return a, nil
	})
}

// DivideVector returns v with each dimension divided by that of w, rounded down. Dimensions that
// only one of them sets stay as in v; a dimension that w sets to zero is ErrDivideByZero.
func (v Vector) DivideVector(w Vector) (Vector, error) {
	return v.transform(func(dimension string, a int64) (int64, error) {
		if b, set := w.Get(dimension); set {
			return scale(dimension, a, 1, b)
		}
		return a, nil
	})
}

// scale returns a*num/den rounded down, with a 128-bit intermediate result.
func scale(dimension string, a, num, den int64) (int64, error) {
	switch {
	case den == 0:
		return 0, fmt.Errorf("%w: %s: %d / 0", ErrDivideByZero, dimension, a)
	case a < 0 || num < 0 || den < 0:
		return 0, fmt.Errorf("%w: %s: %d * %d / %d", ErrUnderflow, dimension, a, num, den)
	}
	high, low := bits.Mul64(uint64(a), uint64(num))
	if high >= uint64(den) {
		return 0, fmt.Errorf("%w: %s: %d * %d / %d", ErrOverflow, dimension, a, num, den)
	}
	quotient, _ := bits.Div64(high, low, uint64(den))
	if quotient > math.MaxInt64 {
		return 0, fmt.Errorf("%w: %s: %d * %d / %d", ErrOverflow, dimension, a, num, den)
	}
	return int64(quotient), nil
}

// combine applies f to every dimension that either operand sets; the result sets them all.
func (v Vector) combine(w Vector, f func(dimension string, a, b int64) (int64, error)) (Vector, error) {
	var err error
	out := Vector{set: v.set | w.set}
	if out.memory, err = f(Memory, v.memory, w.memory); err != nil {
		return Vector{}, err
	}
	if out.cpu, err = f(CPU, v.cpu, w.cpu); err != nil {
		return Vector{}, err
	}
	if out.instances, err = f(Instances, v.instances, w.instances); err != nil {
		return Vector{}, err
	}
	a, b := v.Custom(), w.Custom()
	if len(a)+len(b) == 0 {
		return out, nil
	}
	list := make([]Quantity, 0, len(a)+len(b))
	for p := range pairs(a, b) {
		quantity, err := f(p.name, p.a, p.b)
		if err != nil {
			return Vector{}, err
		}
		list = append(list, Quantity{Name: p.name, Value: quantity})
	}
	return out.withCustom(list), nil
}

// transform applies f to every dimension that is set.
func (v Vector) transform(f func(dimension string, a int64) (int64, error)) (Vector, error) {
	out := Vector{}
	for dimension, a := range v.All() {
		quantity, err := f(dimension, a)
		if err != nil {
			return Vector{}, err
		}
		out = out.With(dimension, quantity)
	}
	return out, nil
}

// only returns v without the dimensions that w does not set.
func (v Vector) only(w Vector) Vector {
	v.set &= w.set
	if len(v.Custom()) == len(w.Custom()) {
		return v
	}
	list := make([]Quantity, 0, len(w.Custom()))
	for p := range pairs(v.Custom(), w.Custom()) {
		if p.inB {
			list = append(list, Quantity{Name: p.name, Value: p.a})
		}
	}
	return v.withCustom(list)
}

// sumError names the dimension that made Sum.Add fail.
func sumError(v, w Vector) error {
	if _, err := v.Add(w); err != nil {
		return err
	}
	return ErrOverflow
}

// differenceError names the dimension that made Sum.Minus fail.
func differenceError(v, w Vector) error {
	if _, err := v.Minus(w); err != nil {
		return err
	}
	return ErrUnderflow
}
