package resource

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
)

// UnmarshalLinkis reads what Linkis has written for a resource of the type. As in Linkis, fields that the type does not have are
// passed over, and a dimension that is not there or at the largest value is without limit, here: unset. A YARN application id has
// no place in a Resource and is dropped. The error is a *FieldError, or says that the text is no JSON object.
func UnmarshalLinkis(t LinkisType, text []byte) (Resource, error) {
	s, err := t.shape()
	if err != nil {
		return Resource{}, err
	}
	var top linkisFields
	if err := json.Unmarshal(text, &top); err != nil {
		return Resource{}, fmt.Errorf("resource: a Linkis %s is a JSON object: %w", t, err)
	}
	var reader linkisReader
	r := reader.resource(s, top)
	if reader.wrong != nil {
		return Resource{}, reader.wrong
	}
	if err := r.Validate(); err != nil {
		return Resource{}, err
	}
	return r, nil
}

// linkisFields are the members of a JSON object. Unlike a struct, they are told apart by case, as Linkis does.
type linkisFields map[string]json.RawMessage

// linkisReader keeps the first thing that is wrong.
type linkisReader struct{ wrong *FieldError }

func (l *linkisReader) resource(s shape, top linkisFields) Resource {
	switch {
	case s.custom:
		return Resource{Vector: l.special(l.object(top, "resources"))}
	case s.kind == "":
		return Resource{Vector: l.here(s, top)}
	case s.here == 0:
		return Resource{External: []External{l.external(s, top)}}
	}
	r := Resource{Vector: l.here(s, l.object(top, "loadInstanceResource"))}
	part := l.object(top, map[string]string{kindYarn: "yarnResource", kindKubernetes: "kubernetesResource"}[s.kind])
	if part != nil {
		r.External = []External{l.external(s, part)}
	}
	return r
}

// here reads the fixed dimensions of the machine.
func (l *linkisReader) here(s shape, fields linkisFields) Vector {
	var v Vector
	if s.here&setMemory != 0 {
		v = l.set(v, Memory, fields, "memory", 1, linkisUnlimited)
	}
	if s.here&setCPU != 0 {
		v = l.set(v, CPU, fields, "cores", 1000, linkisUnlimitedInt32)
	}
	if s.here&setInstances == 0 {
		return v
	}
	// A second field may hold the instances too; it must not say something else.
	second := "instance"
	if s.LinkisType == LinkisInstance {
		second = "cores"
	}
	first := l.set(v, Instances, fields, "instances", 1, linkisUnlimitedInt32)
	again := l.set(v, Instances, fields, second, 1, linkisUnlimitedInt32)
	if _, found := fields["instances"]; !found {
		return again
	}
	if text, found := fields[second]; found && !again.Equal(first) {
		l.fail(second, text, "the same as instances")
	}
	return first
}

// external reads the one external part of a type.
func (l *linkisReader) external(s shape, fields linkisFields) External {
	e := External{Address: Address{Kind: s.kind}}
	if s.kind == kindKubernetes {
		e.Path = l.name(fields, "namespace")
		e.Vector = l.set(e.Vector, Memory, fields, "memory", 1, linkisUnlimited)
		e.Vector = l.set(e.Vector, CPU, fields, "cores", 1, linkisUnlimited)
		return e
	}
	e.Path = l.name(fields, "queueName")
	e.Vector = l.set(e.Vector, Memory, fields, "queueMemory", 1, linkisUnlimited)
	e.Vector = l.set(e.Vector, CPU, fields, "queueCores", 1000, linkisUnlimitedInt32)
	e.Vector = l.set(e.Vector, Instances, fields, "queueInstances", 1, linkisUnlimitedInt32)
	return e
}

// special reads the custom countables.
func (l *linkisReader) special(resources linkisFields) Vector {
	var v Vector
	for _, name := range slices.Sorted(maps.Keys(resources)) {
		if err := checkCustomName(name); err != nil {
			l.fail(err.Field, []byte(err.Value), err.Want)
			return Vector{}
		}
		v = l.set(v, name, resources, name, 1, linkisUnlimited)
	}
	return v
}

// object returns a member that is an object, nil where it is not there or null.
func (l *linkisReader) object(fields linkisFields, name string) linkisFields {
	text, found := fields[name]
	if !found {
		return nil
	}
	var inner linkisFields
	if err := json.Unmarshal(text, &inner); err != nil {
		l.fail(name, text, "a JSON object")
	}
	return inner
}

// name returns a member that is a string, Linkis's default where it is not there or null.
func (l *linkisReader) name(fields linkisFields, name string) string {
	value := linkisDefault
	if text, found := fields[name]; found {
		if err := json.Unmarshal(text, &value); err != nil {
			l.fail(name, text, "a string")
		}
	}
	return value
}

// set returns v with the dimension set to a member's value times unit; as it is where the member is not there or unlimited.
func (l *linkisReader) set(v Vector, dimension string, fields linkisFields, name string, unit, unlimited int64) Vector {
	text, found := fields[name]
	if !found {
		return v
	}
	n, err := strconv.ParseInt(string(text), 10, 64)
	if err != nil { // one of Java's doubles: 2.0, 1E3
		float, err := strconv.ParseFloat(string(text), 64)
		if err != nil || float != math.Trunc(float) || math.Abs(float) > MaxQuantity {
			float = -1
		}
		n = int64(float)
	}
	most := min(MaxQuantity/unit, unlimited-1)
	switch {
	case n == unlimited:
		return v
	case n < 0 || n > most:
		l.fail(name, text, fmt.Sprintf("a whole number from 0 to %d", most))
		return v
	}
	return v.With(dimension, n*unit)
}

func (l *linkisReader) fail(name string, text []byte, want string) {
	if l.wrong == nil {
		l.wrong = &FieldError{name, string(text), want}
	}
}
