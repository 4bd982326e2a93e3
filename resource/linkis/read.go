package linkis

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"

	"github.com/bursar/bursar/resource"
)

// Unmarshal parses Linkis's JSON of a resource of the type. As in Linkis, fields that the type does
// not have are ignored, and a dimension that is absent or has the largest value is unlimited; here
// it is unset. A YARN application id is dropped, because a Resource has no place for it. The error
// is a *resource.FieldError, or reports that the text is no JSON object.
func Unmarshal(t Type, text []byte) (resource.Resource, error) {
	s, err := t.shape()
	if err != nil {
		return resource.Resource{}, err
	}
	var top members
	if err := json.Unmarshal(text, &top); err != nil {
		return resource.Resource{}, fmt.Errorf("resource: a Linkis %s is a JSON object: %w", t, err)
	}
	var from reader
	r := from.resource(s, top)
	if from.wrong != nil {
		return resource.Resource{}, from.wrong
	}
	if err := r.Validate(); err != nil {
		return resource.Resource{}, err
	}
	return r, nil
}

// members are the members of a JSON object. Unlike those of a struct, their names are
// case-sensitive, as in Linkis.
type members map[string]json.RawMessage

// reader keeps the first error.
type reader struct{ wrong *resource.FieldError }

func (l *reader) resource(s shape, top members) resource.Resource {
	switch {
	case s.custom:
		return resource.Resource{Vector: l.special(l.object(top, "resources"))}
	case s.kind == "":
		return resource.Resource{Vector: l.here(s, top)}
	case s.here == 0:
		return resource.Resource{External: []resource.External{l.external(s, top)}}
	}
	r := resource.Resource{Vector: l.here(s, l.object(top, "loadInstanceResource"))}
	part := l.object(top, map[string]string{kindYarn: "yarnResource", kindKubernetes: "kubernetesResource"}[s.kind])
	if part != nil {
		r.External = []resource.External{l.external(s, part)}
	}
	return r
}

// here reads the fixed dimensions of the machine.
func (l *reader) here(s shape, fields members) resource.Vector {
	var v resource.Vector
	if s.here&setMemory != 0 {
		v = l.set(v, resource.Memory, fields, "memory", 1, unlimitedLong)
	}
	if s.here&setCPU != 0 {
		v = l.set(v, resource.CPU, fields, "cores", 1000, unlimitedInt)
	}
	if s.here&setInstances == 0 {
		return v
	}
	// A second field may hold the instances, too; both must be equal.
	second := "instance"
	if s.Type == Instance {
		second = "cores"
	}
	first := l.set(v, resource.Instances, fields, "instances", 1, unlimitedInt)
	again := l.set(v, resource.Instances, fields, second, 1, unlimitedInt)
	if _, found := fields["instances"]; !found {
		return again
	}
	if text, found := fields[second]; found && !again.Equal(first) {
		l.fail(second, text, "the same as instances")
	}
	return first
}

// external reads the only external part of a type.
func (l *reader) external(s shape, fields members) resource.External {
	e := resource.External{Address: resource.Address{Kind: s.kind}}
	if s.kind == kindKubernetes {
		e.Path = l.name(fields, "namespace")
		e.Vector = l.set(e.Vector, resource.Memory, fields, "memory", 1, unlimitedLong)
		e.Vector = l.set(e.Vector, resource.CPU, fields, "cores", 1, unlimitedLong)
		return e
	}
	e.Path = l.name(fields, "queueName")
	e.Vector = l.set(e.Vector, resource.Memory, fields, "queueMemory", 1, unlimitedLong)
	e.Vector = l.set(e.Vector, resource.CPU, fields, "queueCores", 1000, unlimitedInt)
	e.Vector = l.set(e.Vector, resource.Instances, fields, "queueInstances", 1, unlimitedInt)
	return e
}

// special reads the custom countables.
func (l *reader) special(resources members) resource.Vector {
	var v resource.Vector
	for _, name := range slices.Sorted(maps.Keys(resources)) {
		custom := resource.Vector{}.WithCustom(map[string]int64{name: 0})
		if err, wrong := errors.AsType[*resource.FieldError](custom.Validate()); wrong {
			l.fail(err.Field, []byte(err.Value), err.Want)
			return resource.Vector{}
		}
		v = l.set(v, name, resources, name, 1, unlimitedLong)
	}
	return v
}

// object returns a member that is an object, nil if it is absent or null.
func (l *reader) object(fields members, name string) members {
	text, found := fields[name]
	if !found {
		return nil
	}
	var inner members
	if err := json.Unmarshal(text, &inner); err != nil {
		l.fail(name, text, "a JSON object")
	}
	return inner
}

// name returns a member that is a string, Linkis's default if it is absent or null.
func (l *reader) name(fields members, name string) string {
	value := defaultName
	if text, found := fields[name]; found {
		if err := json.Unmarshal(text, &value); err != nil {
			l.fail(name, text, "a string")
		}
	}
	return value
}

// set returns v with the dimension set to a member's value times unit, unchanged if the member is
// absent or unlimited.
func (l *reader) set(v resource.Vector, dimension string, fields members, name string, unit, unlimited int64) resource.Vector {
	text, found := fields[name]
	if !found {
		return v
	}
	n, err := strconv.ParseInt(string(text), 10, 64)
	if err != nil { // Java's formats of a double: 2.0, 1E3
		float, err := strconv.ParseFloat(string(text), 64)
		if err != nil || float != math.Trunc(float) || math.Abs(float) > resource.MaxQuantity {
			float = -1
		}
		n = int64(float)
	}
	most := min(resource.MaxQuantity/unit, unlimited-1)
	switch {
	case n == unlimited:
		return v
	case n < 0 || n > most:
		l.fail(name, text, fmt.Sprintf("a whole number from 0 to %d", most))
		return v
	}
	return v.With(dimension, n*unit)
}

func (l *reader) fail(name string, text []byte, want string) {
	if l.wrong == nil {
		l.wrong = fieldError(name, string(text), want)
	}
}
