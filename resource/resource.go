package resource

import (
	"cmp"
	"slices"
)

// Resource is the content of an allocation, a host or a limit: a vector for the machine, and
// external parts.
//
// The methods that it inherits from Vector, such as Get and With, cover only the machine's vector.
type Resource struct {
	Vector
	// External is sorted by address, without duplicates, and must not be modified. NewResource and
	// WithPart keep it so.
	External []External
}

// Address is the place of an external part.
type Address struct {
	Kind      string // the kind of provider: "yarn"
	Cluster   string // empty: the default cluster of that kind
	Path      string // within the cluster: the full path of a queue
	Partition string // node label; empty: the default partition
}

// External is the part of a resource that another system grants.
type External struct {
	Address
	Vector
}

// NewResource returns a resource of these parts, given in any order. Duplicate addresses stay;
// Validate rejects them.
func NewResource(here Vector, external ...External) Resource {
	external = slices.Clone(external)
	slices.SortStableFunc(external, func(a, b External) int { return a.Compare(b.Address) })
	return Resource{Vector: here, External: external}
}

// Compare orders addresses by kind, cluster, path and partition.
func (a Address) Compare(b Address) int {
	return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Cluster, b.Cluster), cmp.Compare(a.Path, b.Path),
		cmp.Compare(a.Partition, b.Partition))
}

// Part returns the vector at an address, and whether there is one.
func (r Resource) Part(at Address) (Vector, bool) {
	if i, found := r.find(at); found {
		return r.External[i].Vector, true
	}
	return Vector{}, false
}

// WithPart returns the resource with this vector at the address.
func (r Resource) WithPart(at Address, v Vector) Resource {
	i, found := r.find(at)
	r.External = slices.Clone(r.External)
	if found {
		r.External[i].Vector = v
	} else {
		r.External = slices.Insert(r.External, i, External{Address: at, Vector: v})
	}
	return r
}

func (r Resource) find(at Address) (int, bool) {
	return slices.BinarySearchFunc(r.External, at, func(e External, at Address) int { return e.Compare(at) })
}

// IsZero reports whether every quantity is zero, including external parts.
func (r Resource) IsZero() bool {
	return r.Vector.IsZero() && !slices.ContainsFunc(r.External, func(e External) bool { return !e.IsZero() })
}

// IsUnset reports whether no dimension is set, including external parts.
func (r Resource) IsUnset() bool {
	return r.Vector.IsUnset() && !slices.ContainsFunc(r.External, func(e External) bool { return !e.IsUnset() })
}

// Equal reports whether both have the same parts, with the same dimensions set to the same
// quantities.
func (r Resource) Equal(s Resource) bool {
	return r.Vector.Equal(s.Vector) && slices.EqualFunc(r.External, s.External, External.Equal)
}

// Equal reports whether address and vector are equal.
func (e External) Equal(f External) bool { return e.Address == f.Address && e.Vector.Equal(f.Vector) }

// MoreThan reports whether r is nowhere smaller and somewhere greater. Parts are matched by
// address; a missing part is zero.
func (r Resource) MoreThan(s Resource) bool { less, more := r.compare(s); return more && !less }

// LessThan reports whether r is nowhere greater and somewhere smaller.
func (r Resource) LessThan(s Resource) bool { less, more := r.compare(s); return less && !more }

// EqualTo reports whether all quantities are equal; unset counts as zero.
func (r Resource) EqualTo(s Resource) bool { less, more := r.compare(s); return !less && !more }

// NotLessThan reports whether r is nowhere smaller.
func (r Resource) NotLessThan(s Resource) bool { less, _ := r.compare(s); return !less }

// NotMoreThan reports whether r is nowhere greater.
func (r Resource) NotMoreThan(s Resource) bool { _, more := r.compare(s); return !more }

func (r Resource) compare(s Resource) (less, more bool) {
	less, more = r.Vector.compare(s.Vector)
	for _, both := range places(r.External, s.External) {
		l, m := both.a.compare(both.b)
		less, more = less || l, more || m
	}
	return less, more
}

// place is one address with the vectors of both sides, unset if a side does not have it.
type place struct {
	Address
	a, b Vector
	inA  bool
}

// places returns every address of either side once, in order.
func places(a, b []External) []place {
	if len(a)+len(b) == 0 {
		return nil
	}
	all := make([]place, 0, len(a)+len(b))
	for len(a)+len(b) > 0 {
		var p place
		if len(b) == 0 || len(a) > 0 && a[0].Compare(b[0].Address) <= 0 {
			p.Address, p.a, p.inA = a[0].Address, a[0].Vector, true
		} else {
			p.Address = b[0].Address
		}
		if len(b) > 0 && b[0].Address == p.Address {
			p.b = b[0].Vector
			b = b[1:]
		}
		if p.inA {
			a = a[1:]
		}
		all = append(all, p)
	}
	return all
}
