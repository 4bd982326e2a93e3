package resource

import "iter"

// MoreThan reports whether v is nowhere smaller and somewhere greater. The package comment explains
// the order.
func (v Vector) MoreThan(w Vector) bool { less, more := v.compare(w); return more && !less }

// LessThan reports whether v is nowhere greater and somewhere smaller.
func (v Vector) LessThan(w Vector) bool { less, more := v.compare(w); return less && !more }

// EqualTo reports whether v and w are equal in every dimension; unset counts as zero. Equal
// distinguishes these two.
func (v Vector) EqualTo(w Vector) bool { less, more := v.compare(w); return !less && !more }

// NotLessThan reports whether v is nowhere smaller.
func (v Vector) NotLessThan(w Vector) bool { less, _ := v.compare(w); return !less }

// NotMoreThan reports whether v is nowhere greater.
func (v Vector) NotMoreThan(w Vector) bool { _, more := v.compare(w); return !more }

// TakesAllOf returns the dimensions in which v takes at least the whole quantity of has, in the
// order of All. A dimension that is unset in has does not count, and a quantity of zero takes
// nothing.
func (v Vector) TakesAllOf(has Vector) (dimensions []string) {
	for dimension, taken := range v.All() {
		if most, set := has.Get(dimension); set && taken > 0 && taken >= most {
			dimensions = append(dimensions, dimension)
		}
	}
	return dimensions
}

// compare reports whether v is smaller than w in some dimension, and whether it is greater in some.
func (v Vector) compare(w Vector) (less, more bool) {
	less = v.memory < w.memory || v.cpu < w.cpu || v.instances < w.instances
	more = v.memory > w.memory || v.cpu > w.cpu || v.instances > w.instances
	if v.custom == nil && w.custom == nil {
		return less, more
	}
	for p := range pairs(v.Custom(), w.Custom()) {
		less = less || p.a < p.b
		more = more || p.a > p.b
	}
	return less, more
}

// pair is one custom name with its quantities on both sides, 0 if a side does not have it.
type pair struct {
	name     string
	a, b     int64
	inA, inB bool
}

// pairs yields every name of either list once, in order.
func pairs(a, b []Quantity) iter.Seq[pair] {
	return func(yield func(pair) bool) {
		for len(a)+len(b) > 0 {
			var p pair
			if len(b) == 0 || len(a) > 0 && a[0].Name <= b[0].Name {
				p.name, p.a, p.inA = a[0].Name, a[0].Value, true
			} else {
				p.name = b[0].Name
			}
			if len(b) > 0 && b[0].Name == p.name {
				p.b, p.inB = b[0].Value, true
				b = b[1:]
			}
			if p.inA {
				a = a[1:]
			}
			if !yield(p) {
				return
			}
		}
	}
}
