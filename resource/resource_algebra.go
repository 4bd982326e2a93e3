package resource

import "fmt"

// Add returns the sum, part by part; a part of only one side stays as it is. The error is
// ErrOverflow.
func (r Resource) Add(s Resource) (Resource, error) {
	return r.combine(s, Vector.Add, func(place) bool { return true })
}

// Minus returns the difference, part by part; the parts of r stay. The error is ErrUnderflow if s
// is larger somewhere.
func (r Resource) Minus(s Resource) (Resource, error) {
	return r.combine(s, Vector.Minus, func(p place) bool { return p.inA })
}

// Multiply returns every quantity of every part times n, with the errors of Vector.Multiply.
func (r Resource) Multiply(n int64) (Resource, error) { return r.MultiplyRatio(n, 1) }

// Divide returns every quantity of every part divided by n, rounded down, with the errors of
// Vector.Divide.
func (r Resource) Divide(n int64) (Resource, error) { return r.MultiplyRatio(1, n) }

// MultiplyRatio returns every quantity of every part times num/den, rounded down, with the errors
// of Vector.MultiplyRatio.
func (r Resource) MultiplyRatio(num, den int64) (Resource, error) {
	return r.combine(Resource{}, func(v, _ Vector) (Vector, error) { return v.MultiplyRatio(num, den) }, func(place) bool { return true })
}

// MultiplyVector multiplies dimension by dimension. Dimensions and parts that only one of them sets
// stay as in r.
func (r Resource) MultiplyVector(s Resource) (Resource, error) {
	return r.combine(s, Vector.MultiplyVector, func(p place) bool { return p.inA })
}

// DivideVector divides dimension by dimension, rounded down. Dimensions and parts that only one of
// them sets stay as in r.
func (r Resource) DivideVector(s Resource) (Resource, error) {
	return r.combine(s, Vector.DivideVector, func(p place) bool { return p.inA })
}

// combine applies f to the machine's vectors and to the vectors at every address of either side,
// and keeps the parts for which keep returns true.
func (r Resource) combine(s Resource, f func(v, w Vector) (Vector, error), keep func(place) bool) (Resource, error) {
	here, err := f(r.Vector, s.Vector)
	if err != nil {
		return Resource{}, err
	}
	out := Resource{Vector: here}
	for _, p := range places(r.External, s.External) {
		v, err := f(p.a, p.b)
		if err != nil {
			return Resource{}, fmt.Errorf("%s: %w", p.Address, err)
		}
		if keep(p) {
			out.External = append(out.External, External{Address: p.Address, Vector: v})
		}
	}
	return out, nil
}
