package resource

import "slices"

// Sum is a running total, such as the granted quantities of an account. Unlike a Vector it changes:
// it has one owner, must not be copied after its first use, and is read with Vector. It lists only
// nonzero quantities, so that it does not depend on its history. The zero Sum is empty.
type Sum struct {
	memory, cpu, instances int64
	custom                 []Quantity // sorted by name, all nonzero; not shared
}

// Memory returns bytes.
func (s *Sum) Memory() int64 { return s.memory }

// CPU returns thousandths of a core.
func (s *Sum) CPU() int64 { return s.cpu }

// Instances returns a count.
func (s *Sum) Instances() int64 { return s.instances }

// Get returns the quantity of a dimension; 0 if none was added.
func (s *Sum) Get(dimension string) int64 {
	quantity, _ := s.view().Get(dimension)
	return quantity
}

// Vector returns the present total.
func (s *Sum) Vector() Vector {
	return s.view().withCustom(slices.Clone(s.custom))
}

// view returns the total as a vector that is valid until the next change.
func (s *Sum) view() Vector {
	v := Vector{memory: s.memory, cpu: s.cpu, instances: s.instances}
	if s.memory != 0 {
		v.set |= setMemory
	}
	if s.cpu != 0 {
		v.set |= setCPU
	}
	if s.instances != 0 {
		v.set |= setInstances
	}
	if len(s.custom) > 0 {
		v.custom = &s.custom
	}
	return v
}

// Add adds v. On an error (ErrOverflow) the total is unchanged. It does not allocate once it has
// seen all custom names.
func (s *Sum) Add(v Vector) error {
	memory, cpu, instances := s.memory+v.memory, s.cpu+v.cpu, s.instances+v.instances
	if (s.memory|v.memory|memory|s.cpu|v.cpu|cpu|s.instances|v.instances|instances) < 0 || !canAdd(s.custom, v.Custom()) {
		return sumError(s.view(), v)
	}
	i := 0
	for _, q := range v.Custom() {
		i = seek(s.custom, i, q.Name)
		if i < len(s.custom) && s.custom[i].Name == q.Name {
			s.custom[i].Value += q.Value
		} else if q.Value != 0 {
			s.custom = slices.Insert(s.custom, i, q)
		}
	}
	s.memory, s.cpu, s.instances = memory, cpu, instances
	return nil
}

// Minus subtracts v. On an error (ErrUnderflow) the total is unchanged.
func (s *Sum) Minus(v Vector) error {
	memory, cpu, instances := s.memory-v.memory, s.cpu-v.cpu, s.instances-v.instances
	if (s.memory|v.memory|memory|s.cpu|v.cpu|cpu|s.instances|v.instances|instances) < 0 || !canTake(s.custom, v.Custom()) {
		return differenceError(s.view(), v)
	}
	i := 0
	for _, q := range v.Custom() {
		i = seek(s.custom, i, q.Name)
		// a name that is not in the sum is zero in v
		if i < len(s.custom) && s.custom[i].Name == q.Name {
			if s.custom[i].Value -= q.Value; s.custom[i].Value == 0 {
				s.custom = slices.Delete(s.custom, i, i+1)
			}
		}
	}
	s.memory, s.cpu, s.instances = memory, cpu, instances
	return nil
}

// canAdd reports whether no sum of equal names leaves the range.
func canAdd(list, add []Quantity) bool {
	i := 0
	for _, q := range add {
		i = seek(list, i, q.Name)
		sum := q.Value
		if i < len(list) && list[i].Name == q.Name {
			sum += list[i].Value // not negative: no sum is
		}
		if q.Value < 0 || sum < 0 {
			return false
		}
	}
	return true
}

// canTake reports whether list contains every quantity of take.
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
