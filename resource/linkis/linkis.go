// Package linkis has the resource formats that Apache Linkis persists and sends: ten types, each a
// view of a resource.Resource with its own JSON.
//
// It writes and reads these formats, exactly or with an error. It does not talk to Linkis. Package
// resource defines the meaning of a quantity. All functions are pure.
package linkis

import (
	"fmt"
	"slices"

	"github.com/bursar/bursar/resource"
)

// Type names one of the resource types of Apache Linkis. Each is a view of a resource.Resource:
// some of its dimensions, under Linkis's field names.
type Type string

// The types, with the dimensions of each view.
const (
	Memory              Type = "Memory"              // memory
	CPU                 Type = "CPU"                 // cpu
	Load                Type = "Load"                // memory, cpu
	Instance            Type = "Instance"            // instances
	LoadInstance        Type = "LoadInstance"        // memory, cpu, instances
	Yarn                Type = "Yarn"                // a "yarn" part: memory, cpu, instances
	DriverAndYarn       Type = "DriverAndYarn"       // LoadInstance and Yarn
	Kubernetes          Type = "Kubernetes"          // a "kubernetes" part: memory, cpu
	DriverAndKubernetes Type = "DriverAndKubernetes" // LoadInstance and Kubernetes
	Special             Type = "Special"             // custom countables
)

// Kinds of external parts that Linkis has types for.
const (
	kindYarn       = "yarn"
	kindKubernetes = "kubernetes"
)

// The fixed dimensions, as a set of bits.
const (
	setMemory uint8 = 1 << iota
	setCPU
	setInstances
)

// fixedDimensions has the bit of each fixed dimension.
func fixedDimensions() map[string]uint8 {
	return map[string]uint8{resource.Memory: setMemory, resource.CPU: setCPU, resource.Instances: setInstances}
}

// shape describes the dimensions of a type.
type shape struct {
	Type
	here   uint8  // fixed dimensions
	custom bool   // custom countables
	kind   string // of its only external part; empty: it has none
	there  uint8  // fixed dimensions of that part
}

// shapes returns all types, smaller views before larger ones.
func shapes() []shape {
	const load, loadInstance = setMemory | setCPU, setMemory | setCPU | setInstances
	return []shape{
		{Type: Memory, here: setMemory},
		{Type: CPU, here: setCPU},
		{Type: Instance, here: setInstances},
		{Type: Load, here: load},
		{Type: LoadInstance, here: loadInstance},
		{Type: Special, custom: true},
		{Type: Yarn, kind: kindYarn, there: loadInstance},
		{Type: Kubernetes, kind: kindKubernetes, there: load},
		{Type: DriverAndYarn, here: loadInstance, kind: kindYarn, there: loadInstance},
		{Type: DriverAndKubernetes, here: loadInstance, kind: kindKubernetes, there: load},
	}
}

// ParseType parses a type's name as Linkis stores it; "Default" is Load. The error is a
// *resource.FieldError.
func ParseType(name string) (Type, error) {
	if name == "Default" {
		return Load, nil
	}
	s, err := Type(name).shape()
	return s.Type, err
}

func (t Type) shape() (shape, error) {
	all := shapes()
	i := slices.IndexFunc(all, func(s shape) bool { return s.Type == t })
	if i < 0 {
		return shape{}, fieldError(
			"resourceType", string(t),
			"Memory, CPU, Load, Instance, LoadInstance, Yarn, DriverAndYarn, Kubernetes, DriverAndKubernetes or Special",
		)
	}
	return all[i], nil
}

// View returns the first type that covers everything in r, without an external part or custom
// countables that r does not have; "" if there is none. A resource with nothing set is a Load,
// Linkis's default.
func View(r resource.Resource) Type {
	if r.IsUnset() && len(r.External) == 0 {
		return Load
	}
	for _, s := range shapes() {
		if s.covers(r) == nil && (s.kind != "") == (len(r.External) > 0) && s.custom == (len(r.Custom()) > 0) {
			return s.Type
		}
	}
	return ""
}

// Complete returns r with zero for every dimension of the type that r does not set. Linkis needs
// that for used or requested resources, because it reads an unset dimension as unlimited.
func (t Type) Complete(r resource.Resource) resource.Resource {
	s, err := t.shape()
	if err != nil {
		return r
	}
	out := resource.Resource{Vector: zeroed(r.Vector, s.here), External: slices.Clone(r.External)}
	for i := range out.External {
		out.External[i].Vector = zeroed(out.External[i].Vector, s.there)
	}
	return out
}

// zeroed returns v with these fixed dimensions set, to zero if they were unset.
func zeroed(v resource.Vector, fixed uint8) resource.Vector {
	for dimension, bit := range fixedDimensions() {
		if fixed&bit != 0 && !v.Has(dimension) {
			v = v.With(dimension, 0)
		}
	}
	return v
}

// covers returns nil if the type has a field for everything that r sets.
func (s shape) covers(r resource.Resource) *resource.FieldError {
	if err := roomFor(r.Vector, s.here, s.custom); err != nil {
		return err
	}
	if len(r.External) > 1 {
		return fieldError("external", fmt.Sprintf("%d parts", len(r.External)), "at most one")
	}
	for _, e := range r.External {
		at := "external[" + e.Address.String() + "]"
		if s.kind == "" || e.Kind != s.kind {
			return fieldError(at, e.Kind, "a type that has a part of this kind")
		}
		if e.Cluster != "" || e.Partition != "" {
			return fieldError(at, e.Address.String(), "the default cluster and partition: Linkis has no field for others")
		}
		if err := roomFor(e.Vector, s.there, false); err != nil {
			return &resource.FieldError{Field: at + "." + err.Field, Value: err.Value, Want: err.Want}
		}
	}
	return nil
}

func roomFor(v resource.Vector, fixed uint8, custom bool) *resource.FieldError {
	for dimension, quantity := range v.All() {
		bit := fixedDimensions()[dimension]
		if bit != 0 && fixed&bit == 0 || bit == 0 && !custom {
			return fieldError(dimension, resource.FormatQuantity(dimension, quantity), "a type that has this dimension")
		}
	}
	return nil
}

// fieldError makes an error about a field, with its value and a description of a valid one.
func fieldError(field, value, want string) *resource.FieldError {
	return &resource.FieldError{Field: field, Value: value, Want: want}
}
