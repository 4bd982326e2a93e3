package yarn

import (
	"math"
	"math/bits"

	"github.com/bursar/bursar/resource"
)

// ratio is the number of base units in one unit.
type ratio struct{ num, den uint64 }

// units are Hadoop's units (UnitsConversionUtil), and the binary ones that resource definitions may
// also use.
var units = map[string]ratio{
	"p": {1, 1e12}, "n": {1, 1e9}, "u": {1, 1e6}, "m": {1, 1e3}, "": {1, 1},
	"k": {1e3, 1}, "M": {1e6, 1}, "G": {1e9, 1}, "T": {1e12, 1}, "P": {1e15, 1},
	"Ki": {1 << 10, 1}, "Mi": {1 << 20, 1}, "Gi": {1 << 30, 1}, "Ti": {1 << 40, 1}, "Pi": {1 << 50, 1},
}

// YARN's units for memory and CPU.
const (
	mebibyte = 1 << 20 // bytes
	core     = 1000    // millicores
)

var (
	mebibytes = ratio{mebibyte, 1} //nolint:gochecknoglobals // a constant, but for Go having none of a struct
	cores     = ratio{core, 1}     //nolint:gochecknoglobals // likewise
)

// role is the meaning of a quantity; it decides the direction of rounding.
type role uint8

const (
	roleLimit role = iota // a maximum: rounded down, may be unlimited
	rolePromised
	roleTaken // use or reservation: rounded up
)

// quantity converts value units to base units, capped at resource.MaxQuantity; a negative value is
// zero. unlimited is true for a limit that has one of YARN's values for unlimited, or is too large
// to count.
func (r role) quantity(value int64, unit ratio) (quantity int64, unlimited bool) {
	if r == roleLimit && (value == -1 || value == math.MaxInt32 || value == math.MaxInt64) {
		return resource.MaxQuantity, true
	}
	if value <= 0 {
		return 0, false
	}
	high, low := bits.Mul64(uint64(value), unit.num)
	if high >= unit.den {
		return resource.MaxQuantity, r == roleLimit
	}
	base, rest := bits.Div64(high, low, unit.den)
	if rest > 0 && r == roleTaken {
		base++
	}
	if base > resource.MaxQuantity {
		return resource.MaxQuantity, r == roleLimit
	}
	return int64(base), false
}

// set returns v with a dimension. It leaves out an unlimited memory or cpu, but keeps a custom
// type, because an absent one would mean zero.
func (r role) set(v resource.Vector, dimension string, value int64, unit ratio) resource.Vector {
	q, unlimited := r.quantity(value, unit)
	if unlimited && (dimension == resource.Memory || dimension == resource.CPU) {
		return v.Without(dimension)
	}
	return v.With(dimension, q)
}

// list returns v with a resource from Hadoop's list of types. It ignores an unknown unit, a name
// that no request could contain, and types beyond the limit of a vector.
func (r role) list(v resource.Vector, a amount) resource.Vector {
	unit, known := units[a.unit]
	if !known || !a.there {
		return v
	}
	switch a.name {
	case "memory-mb":
		return r.set(v, resource.Memory, a.value, unit)
	case "vcores":
		return r.set(v, resource.CPU, a.value, ratio{unit.num * core, unit.den})
	case resource.Memory, resource.CPU, resource.Instances:
		return v
	}
	with := r.set(v, a.name, a.value, unit)
	if with.Validate() != nil {
		return v
	}
	return with
}

// share returns percent of a size, rounded down to whole MiB and cores as in YARN.
func share(percent float64, of resource.Vector) resource.Vector {
	percent = min(max(percent, 0), 100)
	part := func(total, unit int64) int64 {
		whole := math.Floor(nearly(percent * float64(total/unit) / 100))
		return min(int64(whole), total/unit) * unit
	}
	var v resource.Vector
	for dimension, total := range of.All() {
		switch dimension {
		case resource.Memory:
			v = v.WithMemory(part(total, mebibyte))
		case resource.CPU:
			v = v.WithCPU(part(total, core))
		default:
			v = v.With(dimension, part(total, 1))
		}
	}
	return v
}

// nearly increases x by the error of a percentage in 32 bits: a third of three cores is 33.333332
// %.
func nearly(x float64) float64 { return x + min(x*2.5e-7, 1e-3) }
