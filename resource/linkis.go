package resource

import (
	"fmt"
	"slices"
)

// LinkisType names one of the resource types of Apache Linkis. Each is a view of a Resource: some of its dimensions, under the
// field names that Linkis persists and sends.
type LinkisType string

// The types, and what each is a view of.
const (
	LinkisMemory              LinkisType = "Memory"              // memory
	LinkisCPU                 LinkisType = "CPU"                 // cpu
	LinkisLoad                LinkisType = "Load"                // memory, cpu
	LinkisInstance            LinkisType = "Instance"            // instances
	LinkisLoadInstance        LinkisType = "LoadInstance"        // memory, cpu, instances
	LinkisYarn                LinkisType = "Yarn"                // a part of kind "yarn": memory, cpu, instances
	LinkisDriverAndYarn       LinkisType = "DriverAndYarn"       // LoadInstance and Yarn
	LinkisKubernetes          LinkisType = "Kubernetes"          // a part of kind "kubernetes": memory, cpu
	LinkisDriverAndKubernetes LinkisType = "DriverAndKubernetes" // LoadInstance and Kubernetes
	LinkisSpecial             LinkisType = "Special"             // custom countables
)

// Kinds of external parts that Linkis has types for.
const (
	kindYarn       = "yarn"
	kindKubernetes = "kubernetes"
)

// shape says what a type has room for.
type shape struct {
	LinkisType
	here   uint8  // fixed dimensions
	custom bool   // custom countables
	kind   string // of its one external part; empty: it has none
	there  uint8  // fixed dimensions of that part
}

// shapes returns all types, those that are views of less before those of more.
func shapes() []shape {
	const load, loadInstance = setMemory | setCPU, setMemory | setCPU | setInstances
	return []shape{
		{LinkisType: LinkisMemory, here: setMemory},
		{LinkisType: LinkisCPU, here: setCPU},
		{LinkisType: LinkisInstance, here: setInstances},
		{LinkisType: LinkisLoad, here: load},
		{LinkisType: LinkisLoadInstance, here: loadInstance},
		{LinkisType: LinkisSpecial, custom: true},
		{LinkisType: LinkisYarn, kind: kindYarn, there: loadInstance},
		{LinkisType: LinkisKubernetes, kind: kindKubernetes, there: load},
		{LinkisType: LinkisDriverAndYarn, here: loadInstance, kind: kindYarn, there: loadInstance},
		{LinkisType: LinkisDriverAndKubernetes, here: loadInstance, kind: kindKubernetes, there: load},
	}
}

// ParseLinkisType reads a type's name as Linkis stores it; "Default" is Load. The error is a *FieldError.
func ParseLinkisType(name string) (LinkisType, error) {
	if name == "Default" {
		return LinkisLoad, nil
	}
	s, err := LinkisType(name).shape()
	return s.LinkisType, err
}

func (t LinkisType) shape() (shape, error) {
	all := shapes()
	i := slices.IndexFunc(all, func(s shape) bool { return s.LinkisType == t })
	if i < 0 {
		return shape{}, &FieldError{
			"resourceType", string(t),
			"Memory, CPU, Load, Instance, LoadInstance, Yarn, DriverAndYarn, Kubernetes, DriverAndKubernetes or Special",
		}
	}
	return all[i], nil
}

// View returns the first type that has room for everything r sets and no external part or custom countables that r does not
// have; "" where no type has. A resource with nothing set is a Load, Linkis's default.
func View(r Resource) LinkisType {
	if r.IsUnset() && len(r.External) == 0 {
		return LinkisLoad
	}
	for _, s := range shapes() {
		if s.covers(r) == nil && (s.kind != "") == (len(r.External) > 0) && s.custom == (len(r.Custom()) > 0) {
			return s.LinkisType
		}
	}
	return ""
}

// Complete returns r with every dimension that the type has and r leaves unset set to zero: what Linkis means by a resource that
// is used or asked for, where an unset dimension would be without limit.
func (t LinkisType) Complete(r Resource) Resource {
	s, err := t.shape()
	if err != nil {
		return r
	}
	out := Resource{Vector: r.zeroed(s.here), External: slices.Clone(r.External)}
	for i := range out.External {
		out.External[i].Vector = out.External[i].zeroed(s.there)
	}
	return out
}

// zeroed returns v with these fixed dimensions set; those that were unset are zero already.
func (v Vector) zeroed(fixed uint8) Vector {
	v.set |= fixed
	return v
}

// covers returns nil where the type has room for everything that r sets.
func (s shape) covers(r Resource) *FieldError {
	if err := roomFor(r.Vector, s.here, s.custom); err != nil {
		return err
	}
	if len(r.External) > 1 {
		return &FieldError{"external", fmt.Sprintf("%d parts", len(r.External)), "at most one"}
	}
	for _, e := range r.External {
		at := "external[" + e.Address.String() + "]"
		if s.kind == "" || e.Kind != s.kind {
			return &FieldError{at, e.Kind, "a type that has a part of this kind"}
		}
		if e.Cluster != "" || e.Partition != "" {
			return &FieldError{at, e.Address.String(), "the default cluster and partition: Linkis has no field for others"}
		}
		if err := roomFor(e.Vector, s.there, false); err != nil {
			return err.within(at)
		}
	}
	return nil
}

func roomFor(v Vector, fixed uint8, custom bool) *FieldError {
	for dimension, quantity := range v.All() {
		bit := map[string]uint8{Memory: setMemory, CPU: setCPU, Instances: setInstances}[dimension]
		if bit != 0 && fixed&bit == 0 || bit == 0 && !custom {
			return &FieldError{dimension, formatQuantity(dimension, quantity), "a type that has this dimension"}
		}
	}
	return nil
}
