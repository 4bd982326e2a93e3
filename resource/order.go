package resource

import "iter"

// MoreThan reports whether v is nowhere smaller and somewhere greater. See the package comment on order.
func (v Vector) MoreThan(w Vector) bool { less, more := v.compare(w); return more && !less }

// LessThan reports whether v is nowhere greater and somewhere smaller.
func (v Vector) LessThan(w Vector) bool { less, more := v.compare(w); return less && !more }

// EqualTo reports whether v and w are equal in every dimension, where unset counts as zero. See Equal for telling these apart.
func (v Vector) EqualTo(w Vector) bool { less, more := v.compare(w); return !less && !more }

// NotLessThan reports whether v is nowhere smaller.
func (v Vector) NotLessThan(w Vector) bool { less, _ := v.compare(w); return !less }

// NotMoreThan reports whether v is nowhere greater.
func (v Vector) NotMoreThan(w Vector) bool { _, more := v.compare(w); return !more }

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

// Missing says what a dimension means that an available resource does not list.
type Missing uint8

const (
	// Absent is there none of: a host that does not list "gpu" has none.
	Absent Missing = iota
	// Unlimited does not limit: a quota that does not list "gpu" does not limit it.
	Unlimited
)

// FitsWithin reports whether everything that v asks for, that is every quantity that is not zero, is available. A zero never
// blocks anything, whatever is available.
func (v Vector) FitsWithin(available Vector, missing Missing) bool {
	listed := available.set
	if missing == Absent {
		listed = setMemory | setCPU | setInstances
	}
	if v.memory > 0 && v.memory > available.memory && listed&setMemory != 0 ||
		v.cpu > 0 && v.cpu > available.cpu && listed&setCPU != 0 ||
		v.instances > 0 && v.instances > available.instances && listed&setInstances != 0 {
		return false
	}
	if v.custom == nil {
		return true
	}
	list, i := available.Custom(), 0
	for _, q := range v.custom {
		if q.Value == 0 {
			continue
		}
		i = seek(list, i, q.Name)
		if i < len(list) && list[i].Name == q.Name {
			if q.Value > list[i].Value {
				return false
			}
		} else if missing == Absent {
			return false
		}
	}
	return true
}

// pair is one custom name with its quantities on both sides, 0 where a side does not have it.
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
