// Package convert converts between the messages of bursar.v1 and their Go types: resource.Resource
// and label.Set.
//
// It checks the content of messages; the errors are *resource.FieldError and *label.FieldError. It
// copies values into messages. All functions may be called concurrently.
package convert

import (
	"errors"
	"fmt"
	"strconv"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/bursar/bursar/label"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/resource"
)

// quantities is the common part of both messages with quantities.
type quantities interface {
	GetCustom() map[string]int64
	GetMemoryBytes() int64
	GetCpuMillis() int64
	GetInstances() int64
}

// ResourceFromProto returns the resource of a message; nil is an empty resource. External parts may
// come in any order.
func ResourceFromProto(m *bursarv1.Resource) (resource.Resource, error) {
	if m == nil {
		return resource.Resource{}, nil
	}
	here := vector(m, m.MemoryBytes != nil, m.CpuMillis != nil, m.Instances != nil)
	var external []resource.External
	for _, e := range m.GetExternal() {
		external = append(external, resource.External{
			Address: resource.Address{Kind: e.GetKind(), Cluster: e.GetCluster(), Path: e.GetPath(), Partition: e.GetPartition()},
			Vector:  vector(e, e.MemoryBytes != nil, e.CpuMillis != nil, e.Instances != nil),
		})
	}
	r := resource.NewResource(here, external...)
	if err := r.Validate(); err != nil {
		return resource.Resource{}, err
	}
	return r, nil
}

// VectorFromProto returns the vector of a message that may have no external parts, such as a host's
// capacity or a measurement.
func VectorFromProto(m *bursarv1.Resource) (resource.Vector, error) {
	r, err := ResourceFromProto(m)
	if err == nil && len(r.External) > 0 {
		err = &resource.FieldError{Field: "external", Value: r.External[0].Address.String(), Want: "no external parts here"}
	}
	if err != nil {
		return resource.Vector{}, err
	}
	return r.Vector, nil
}

// LimitFromProto returns the vector and the external parts of a message that is the limit or the
// guarantee of a quota. A part without a cluster applies to every cluster of its kind.
func LimitFromProto(m *bursarv1.Resource) (resource.Vector, []resource.External, error) {
	parts := proto.CloneOf(m)
	for _, e := range parts.GetExternal() {
		if e.GetCluster() == "" { // two addresses may become equal
			e.Cluster = resource.Any
		}
	}
	r, err := ResourceFromProto(parts)
	if err == nil {
		err = resource.ValidateLimits(r.External)
	}
	if err != nil {
		return resource.Vector{}, nil, err
	}
	return r.Vector, r.External, nil
}

// LimitToProto returns the message of a quota's limit or guarantee; nil if it lists nothing.
func LimitToProto(v resource.Vector, external []resource.External) *bursarv1.Resource {
	if v.IsUnset() && len(external) == 0 {
		return nil
	}
	return ResourceToProto(resource.NewResource(v, external...))
}

// PlaceToProto returns the message of the place of a limit or guarantee of external parts.
func PlaceToProto(at resource.Address) *bursarv1.ExternalPlace {
	return &bursarv1.ExternalPlace{Kind: at.Kind, Cluster: at.Cluster, Path: at.Path}
}

func vector(m quantities, memory, cpu, instances bool) resource.Vector {
	v := resource.Vector{}.WithCustom(m.GetCustom())
	if memory {
		v = v.WithMemory(m.GetMemoryBytes())
	}
	if cpu {
		v = v.WithCPU(m.GetCpuMillis())
	}
	if instances {
		v = v.WithInstances(m.GetInstances())
	}
	return v
}

// ResourceToProto returns the message of a resource.
func ResourceToProto(r resource.Resource) *bursarv1.Resource {
	m := VectorToProto(r.Vector)
	for _, e := range r.External {
		part := VectorToProto(e.Vector)
		m.External = append(m.External, &bursarv1.ExternalResource{
			Kind: e.Kind, Cluster: e.Cluster, Path: e.Path, Partition: e.Partition,
			MemoryBytes: part.MemoryBytes, CpuMillis: part.CpuMillis, Instances: part.Instances, Custom: part.Custom,
		})
	}
	return m
}

// VectorToProto returns the message of a vector.
func VectorToProto(v resource.Vector) *bursarv1.Resource {
	m := &bursarv1.Resource{
		MemoryBytes: quantity(v, resource.Memory),
		CpuMillis:   quantity(v, resource.CPU),
		Instances:   quantity(v, resource.Instances),
	}
	if custom := v.Custom(); len(custom) > 0 {
		m.Custom = make(map[string]int64, len(custom))
		for _, q := range custom {
			m.Custom[q.Name] = q.Value
		}
	}
	return m
}

func quantity(v resource.Vector, dimension string) *int64 {
	if quantity, set := v.Get(dimension); set {
		return &quantity
	}
	return nil
}

// RulesFromProto parses conditions on labels; nil: there are none. The error is a *label.FieldError
// whose field is the index.
func RulesFromProto(texts []string) (rules []label.Rule, err error) {
	for i, text := range texts {
		rule, err := label.ParseRule(text)
		if wrong, ok := errors.AsType[*label.FieldError](err); ok {
			return nil, &label.FieldError{Field: "[" + strconv.Itoa(i) + "]", Value: text, Want: wrong.Want}
		}
		rules = append(rules, rule)
	}
	return rules, nil
}

// LabelsFromProto returns the labels of a message.
func LabelsFromProto(labels map[string]string) (label.Set, error) { return label.FromMap(labels) }

// LabelsToProto returns the map of a message.
func LabelsToProto(set label.Set) map[string]string { return set.Map() }

// NormalizationFromProto returns the rounding of a quota; nil leaves requests unchanged.
func NormalizationFromProto(m *bursarv1.Normalization) (resource.Normalization, error) {
	var n resource.Normalization
	for _, part := range []struct {
		name string
		from *bursarv1.Resource
		to   *resource.Vector
	}{{"minimum", m.GetMinimum(), &n.Minimum}, {"increment", m.GetIncrement(), &n.Increment}, {"maximum", m.GetMaximum(), &n.Maximum}} {
		v, err := VectorFromProto(part.from)
		if err != nil {
			return resource.Normalization{}, fmt.Errorf("%s: %w", part.name, err)
		}
		*part.to = v
	}
	if err := n.Validate(); err != nil {
		return resource.Normalization{}, err
	}
	return n, nil
}

// NormalizationToProto returns the message of a rounding, nil for one that leaves requests
// unchanged.
func NormalizationToProto(n resource.Normalization) *bursarv1.Normalization {
	if n.Minimum.IsUnset() && n.Increment.IsUnset() && n.Maximum.IsUnset() {
		return nil
	}
	return &bursarv1.Normalization{
		Minimum: VectorToProto(n.Minimum), Increment: VectorToProto(n.Increment), Maximum: VectorToProto(n.Maximum),
	}
}

// InvalidField returns the detail of INVALID_ARGUMENT for an error of this package, of resource or
// of label; false for others.
func InvalidField(err error) (*bursarv1.InvalidField, bool) {
	if wrong, ok := errors.AsType[*resource.FieldError](err); ok {
		return &bursarv1.InvalidField{Field: wrong.Field, Value: wrong.Value, Want: wrong.Want}, true
	}
	if wrong, ok := errors.AsType[*label.FieldError](err); ok {
		return &bursarv1.InvalidField{Field: wrong.Field, Value: wrong.Value, Want: wrong.Want}, true
	}
	return nil, false
}

// MarshalJSON encodes a resource in this system's own JSON format, that of bursar.v1.Resource.
func MarshalJSON(r resource.Resource) ([]byte, error) {
	text, err := protojson.Marshal(ResourceToProto(r))
	if err != nil {
		return nil, fmt.Errorf("encoding a resource: %w", err)
	}
	return text, nil
}

// UnmarshalJSON decodes the output of MarshalJSON. Unknown fields are an error.
func UnmarshalJSON(text []byte) (resource.Resource, error) {
	m := &bursarv1.Resource{}
	if err := protojson.Unmarshal(text, m); err != nil {
		return resource.Resource{}, fmt.Errorf("decoding a resource: %w", err)
	}
	return ResourceFromProto(m)
}
