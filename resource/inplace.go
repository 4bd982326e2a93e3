package resource

import (
	"slices"
	"unsafe"
)

// parts are the custom countables of a vector, sorted by name, no name twice, never empty.
type parts struct {
	list []Quantity
	// owner is the address of the vector that may change list in place; 0: nobody may. It is compared, never followed: a
	// vector that finds another address here takes a copy first.
	owner uintptr
}

func newParts(list []Quantity) *parts {
	if len(list) == 0 {
		return nil
	}
	return &parts{list: list}
}

// frozen returns parts that nobody changes in place, with the same content.
func (p *parts) frozen() *parts {
	if p == nil || p.owner == 0 {
		return p
	}
	return newParts(slices.Clone(p.list))
}

// own makes sure that the vector alone holds its custom parts.
func (v *Vector) own() {
	self := uintptr(unsafe.Pointer(v)) //nolint:gosec // an identity to compare with, never turned back into a pointer
	if v.custom.owner != self {
		v.custom = &parts{list: slices.Clone(v.custom.list), owner: self}
	}
}

// AddInPlace adds w to v. On an error (ErrOverflow) v is unchanged. It does not allocate once v has seen all custom names.
func (v *Vector) AddInPlace(w Vector) error {
	memory, cpu, instances := v.memory+w.memory, v.cpu+w.cpu, v.instances+w.instances
	if (v.memory|w.memory|memory|v.cpu|w.cpu|cpu|v.instances|w.instances|instances) < 0 || !canAdd(v.Custom(), w.Custom()) {
		return sumError(*v, w)
	}
	if w.custom != nil {
		v.addCustom(w.custom.list)
	}
	v.memory, v.cpu, v.instances = memory, cpu, instances
	v.set |= w.set
	return nil
}

// MinusInPlace takes w from v. On an error (ErrUnderflow) v is unchanged. The dimensions that v has set stay set.
func (v *Vector) MinusInPlace(w Vector) error {
	memory, cpu, instances := v.memory-w.memory, v.cpu-w.cpu, v.instances-w.instances
	if (v.memory|w.memory|memory|v.cpu|w.cpu|cpu|v.instances|w.instances|instances) < 0 || !canTake(v.Custom(), w.Custom()) {
		return differenceError(*v, w)
	}
	if w.custom != nil {
		v.takeCustom(w.custom.list)
	}
	v.memory, v.cpu, v.instances = memory, cpu, instances
	return nil
}

// canAdd reports whether no sum of equal names leaves the range.
func canAdd(list, add []Quantity) bool {
	i := 0
	for _, q := range add {
		i = seek(list, i, q.Name)
		sum := q.Value
		if i < len(list) && list[i].Name == q.Name {
			sum += list[i].Value
			if list[i].Value < 0 {
				return false
			}
		}
		if q.Value < 0 || sum < 0 {
			return false
		}
	}
	return true
}

// canTake reports whether every quantity of take is there.
func canTake(list, take []Quantity) bool {
	i := 0
	for _, q := range take {
		i = seek(list, i, q.Name)
		have := int64(0)
		if i < len(list) && list[i].Name == q.Name {
			have = list[i].Value
		}
		if q.Value < 0 || have < q.Value {
			return false
		}
	}
	return true
}

// seek returns the first index at or after i whose name is not before the given one.
func seek(list []Quantity, i int, name string) int {
	for i < len(list) && list[i].Name < name {
		i++
	}
	return i
}

// addCustom adds what canAdd has checked.
func (v *Vector) addCustom(add []Quantity) {
	if v.custom == nil {
		v.custom = &parts{list: slices.Clone(add)}
		v.own()
		return
	}
	v.own()
	i := 0
	for _, q := range add {
		i = seek(v.custom.list, i, q.Name)
		if i < len(v.custom.list) && v.custom.list[i].Name == q.Name {
			v.custom.list[i].Value += q.Value
		} else {
			v.custom.list = slices.Insert(v.custom.list, i, q)
		}
	}
}

// takeCustom takes what canTake has checked. Names that v does not have are zero in take.
func (v *Vector) takeCustom(take []Quantity) {
	if v.custom == nil {
		return
	}
	v.own()
	i := 0
	for _, q := range take {
		i = seek(v.custom.list, i, q.Name)
		if i < len(v.custom.list) && v.custom.list[i].Name == q.Name {
			v.custom.list[i].Value -= q.Value
		}
	}
}
