package resource

import (
	"cmp"
	"iter"
	"slices"
)

// Names of the fixed dimensions. Every other name is a custom countable.
const (
	Memory    = "memory"    // bytes
	CPU       = "cpu"       // thousandths of a core
	Instances = "instances" // engines, or containers of an external part
)

// Dimensions of applications in queues of external clusters. A part of a request may list them next
// to its other quantities, and limits of queues, and of users in queues, may apply to them. A limit
// that does not list one of them does not limit it. They are written like custom countables.
const (
	AMMemory     = "am-memory"    // bytes of the application's master, also part of its memory
	AMCPU        = "am-cpu"       // thousandths of a core of the master, also part of its cpu
	Applications = "applications" // applications at the same time
)

// OfApplications reports whether a dimension is a dimension of applications.
func OfApplications(dimension string) bool {
	return dimension == Applications || OfMasters(dimension)
}

// OfMasters reports whether a dimension is a dimension of the masters of applications.
func OfMasters(dimension string) bool { return dimension == AMMemory || dimension == AMCPU }

// MaxQuantity is the largest quantity in external input: every JSON reader keeps it exact. Sums of
// accounts may be larger, up to 63 bits.
const MaxQuantity = 1<<53 - 1

// Presence of the fixed dimensions.
const (
	setMemory uint8 = 1 << iota
	setCPU
	setInstances
)

// Quantity is one custom countable.
type Quantity struct {
	Name  string
	Value int64
}

// Vector holds the quantities of one place. The zero Vector has nothing set. It is an immutable
// value: assign and share it freely. A running total is a Sum.
//
// Compare with Equal.
type Vector struct {
	_ [0]func() // not comparable

	memory, cpu, instances int64
	set                    uint8
	// custom is sorted by name, without duplicates, and never changed; nil: there are none. Few
	// vectors have any, and a coordinator keeps a million vectors, so it is one word and not three.
	custom *[]Quantity
}

// Memory returns bytes, 0 when unset.
func (v Vector) Memory() int64 { return v.memory }

// CPU returns thousandths of a core, 0 when unset.
func (v Vector) CPU() int64 { return v.cpu }

// Instances returns a count, 0 when unset.
func (v Vector) Instances() int64 { return v.instances }

// Get returns the quantity of a dimension and whether it is set.
func (v Vector) Get(dimension string) (quantity int64, set bool) {
	switch dimension {
	case Memory:
		return v.memory, v.set&setMemory != 0
	case CPU:
		return v.cpu, v.set&setCPU != 0
	case Instances:
		return v.instances, v.set&setInstances != 0
	}
	for _, q := range v.Custom() {
		if q.Name == dimension {
			return q.Value, true
		}
	}
	return 0, false
}

// Has reports whether the dimension is set, even to zero.
func (v Vector) Has(dimension string) bool {
	_, set := v.Get(dimension)
	return set
}

// Custom returns the custom countables sorted by name. The slice is shared and must not be
// modified.
func (v Vector) Custom() []Quantity {
	if v.custom == nil {
		return nil
	}
	return *v.custom
}

// withCustom returns the vector with this list as its custom countables.
func (v Vector) withCustom(list []Quantity) Vector {
	v.custom = nil
	if len(list) > 0 {
		kept := list // on the heap, which an empty list does not need
		v.custom = &kept
	}
	return v
}

// All yields the set dimensions: memory, cpu, instances, then custom ones by name.
func (v Vector) All() iter.Seq2[string, int64] {
	return func(yield func(string, int64) bool) {
		if v.set&setMemory != 0 && !yield(Memory, v.memory) {
			return
		}
		if v.set&setCPU != 0 && !yield(CPU, v.cpu) {
			return
		}
		if v.set&setInstances != 0 && !yield(Instances, v.instances) {
			return
		}
		for _, q := range v.Custom() {
			if !yield(q.Name, q.Value) {
				return
			}
		}
	}
}

// IsZero reports whether every quantity is zero.
func (v Vector) IsZero() bool {
	if v.memory|v.cpu|v.instances != 0 {
		return false
	}
	for _, q := range v.Custom() {
		if q.Value != 0 {
			return false
		}
	}
	return true
}

// IsUnset reports whether no dimension is set.
func (v Vector) IsUnset() bool { return v.set == 0 && v.custom == nil }

// WithMemory returns the vector with memory set to bytes. Like the other With methods it accepts
// any quantity; Validate checks the range.
func (v Vector) WithMemory(bytes int64) Vector {
	v.memory, v.set = bytes, v.set|setMemory
	return v
}

// WithCPU returns the vector with cpu set to millis thousandths of a core.
func (v Vector) WithCPU(millis int64) Vector {
	v.cpu, v.set = millis, v.set|setCPU
	return v
}

// WithInstances returns the vector with instances set.
func (v Vector) WithInstances(n int64) Vector {
	v.instances, v.set = n, v.set|setInstances
	return v
}

// With returns the vector with the named dimension set.
func (v Vector) With(dimension string, quantity int64) Vector {
	switch dimension {
	case Memory:
		return v.WithMemory(quantity)
	case CPU:
		return v.WithCPU(quantity)
	case Instances:
		return v.WithInstances(quantity)
	}
	list := slices.Clone(v.Custom())
	i, found := find(list, dimension)
	if found {
		list[i].Value = quantity
	} else {
		list = slices.Insert(list, i, Quantity{Name: dimension, Value: quantity})
	}
	return v.withCustom(list)
}

// WithCustom returns the vector with these custom countables set. Unlike With it treats every name
// as a custom one; Validate rejects invalid ones, such as "memory".
func (v Vector) WithCustom(quantities map[string]int64) Vector {
	if len(quantities) == 0 {
		return v
	}
	list := make([]Quantity, 0, len(v.Custom())+len(quantities))
	for _, q := range v.Custom() {
		if _, replaced := quantities[q.Name]; !replaced {
			list = append(list, q)
		}
	}
	for name, quantity := range quantities {
		list = append(list, Quantity{Name: name, Value: quantity})
	}
	slices.SortFunc(list, func(a, b Quantity) int { return cmp.Compare(a.Name, b.Name) })
	return v.withCustom(list)
}

// Without returns the vector with the dimension unset.
func (v Vector) Without(dimension string) Vector {
	switch dimension {
	case Memory:
		v.memory, v.set = 0, v.set&^setMemory
	case CPU:
		v.cpu, v.set = 0, v.set&^setCPU
	case Instances:
		v.instances, v.set = 0, v.set&^setInstances
	default:
		if i, found := find(v.Custom(), dimension); found {
			return v.withCustom(slices.Delete(slices.Clone(v.Custom()), i, i+1))
		}
	}
	return v
}

// Equal reports whether both have the same dimensions set to the same quantities. For EqualTo,
// unset counts as zero.
func (v Vector) Equal(w Vector) bool {
	return v.set == w.set && v.memory == w.memory && v.cpu == w.cpu && v.instances == w.instances &&
		slices.Equal(v.Custom(), w.Custom())
}

func find(list []Quantity, name string) (int, bool) {
	return slices.BinarySearchFunc(list, name, func(q Quantity, name string) int { return cmp.Compare(q.Name, name) })
}
