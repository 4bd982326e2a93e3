package quotafile

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/bursar/bursar/internal/yamlfile"
	"github.com/bursar/bursar/label"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/proto/convert"
	"github.com/bursar/bursar/resource"
)

// Error describes a fault in a file and its place: File, Line, Column, Field, Reason. Its Excerpt
// shows the place.
type Error = yamlfile.Error

// Limits of the API.
const (
	maxRules        = 10000
	maxSelectorKeys = 16
	maxWeight       = 1000000
)

// file and rule are the structure of a file.
type file struct {
	Quotas []rule `yaml:"quotas"`
}

type rule struct {
	Selector      scalars          `yaml:"selector"`
	Limit         limit            `yaml:"limit"`
	Guaranteed    limit            `yaml:"guaranteed"`
	Weight        *yamlfile.Scalar `yaml:"weight"`
	Normalization *normalization   `yaml:"normalization"`
}

type normalization struct {
	Minimum   scalars `yaml:"minimum"`
	Increment scalars `yaml:"increment"`
	Maximum   scalars `yaml:"maximum"`
}

type scalars map[string]yamlfile.Scalar

// limit maps dimensions to quantities; external parts are in a list.
type limit map[string]yamlfile.ScalarOrMaps

// Parse reads a file's content; name is only for errors. The error is an *Error.
func Parse(name string, data []byte) ([]*bursarv1.Quota, error) {
	doc, err := yamlfile.Parse(name, data)
	if err != nil {
		return nil, err
	}
	var f file
	if err := doc.Decode(&f); err != nil {
		return nil, err
	}
	switch {
	case f.Quotas == nil:
		return nil, doc.At("quotas", "missing: want a list of rules, or [] for none")
	case len(f.Quotas) > maxRules:
		return nil, doc.At(indexPath(maxRules), fmt.Sprintf("%d rules: want at most %d", len(f.Quotas), maxRules))
	}
	quotas := make([]*bursarv1.Quota, len(f.Quotas))
	places := make(map[string]int, len(f.Quotas))
	for i, r := range f.Quotas {
		q, wrong := r.quota()
		if wrong != nil {
			return nil, doc.At(indexPath(i)+"."+wrong.field, wrong.reason)
		}
		selector, err := label.NewSelector(q.GetSelector())
		if err != nil {
			return nil, doc.At(indexPath(i)+".selector", err.Error())
		}
		if before, twice := places[selector.String()]; twice {
			return nil, doc.At(indexPath(i)+".selector", fmt.Sprintf("%s: already the selector of %s: want one rule for it", selector.Text(), indexPath(before)))
		}
		places[selector.String()] = i
		quotas[i] = q
	}
	return quotas, nil
}

// Locate returns the error about a rule that Parse accepted and that was rejected later. field is
// its path; it begins with "quotas[N]", where N is the index in Parse's result.
func Locate(name string, data []byte, field, reason string) *Error {
	doc, err := yamlfile.Parse(name, data)
	if err != nil {
		return &Error{File: name, Field: field, Reason: reason}
	}
	return doc.At(field, reason)
}

func indexPath(i int) string { return fmt.Sprintf("quotas[%d]", i) }

// fieldError is a fault in a rule.
type fieldError struct {
	field, reason string
}

// quota converts the rule to the API's type.
func (r rule) quota() (*bursarv1.Quota, *fieldError) {
	if r.Selector == nil {
		return nil, &fieldError{"selector", "missing: want labels, or {} for everything together"}
	}
	if len(r.Selector) > maxSelectorKeys {
		return nil, &fieldError{"selector", fmt.Sprintf("%d keys: want at most %d", len(r.Selector), maxSelectorKeys)}
	}
	if r.Limit == nil && r.Guaranteed == nil && r.Weight == nil && r.Normalization == nil {
		return nil, &fieldError{"limit", "missing: want what the rule limits, such as {memory: 64GiB}"}
	}
	q := &bursarv1.Quota{Selector: make(map[string]string, len(r.Selector))}
	for _, key := range r.Selector.keys() {
		value := r.Selector[key]
		if !value.IsSet() {
			return nil, &fieldError{
				"selector." + key, `has no value: want one, "*" for every value apart, or "" for requests without this label`,
			}
		}
		q.Selector[key] = value.String()
	}
	selector, err := label.NewSelector(q.GetSelector())
	if err == nil {
		err = selector.CheckValues()
	}
	if err != nil {
		return nil, asFieldError("selector", err)
	}
	if r.Weight != nil {
		n, reason := r.Weight.Int(1, maxWeight)
		if reason != "" {
			return nil, &fieldError{"weight", reason}
		}
		q.Weight = int32(n) //nolint:gosec // at most maxWeight
	}
	return q, r.quantities(q)
}

// quantities reads the rule's quantities.
func (r rule) quantities(q *bursarv1.Quota) *fieldError {
	limit, external, wrong := r.Limit.quantities("limit")
	if wrong != nil {
		return wrong
	}
	guaranteed, parts, wrong := r.Guaranteed.quantities("guaranteed")
	if wrong != nil {
		return wrong
	}
	for dimension, quantity := range guaranteed.All() {
		if most, limited := limit.Get(dimension); limited && quantity > most {
			return &fieldError{
				"guaranteed." + dimension,
				yamlfile.Want(r.Guaranteed[dimension].String(), "at most the limit, "+r.Limit[dimension].String()),
			}
		}
	}
	for i := range parts {
		if err := resource.ValidateGuarantees(parts[i:i+1], external); err != nil {
			return inLimit(fmt.Sprintf("guaranteed.%s[%d]", externalKey, i), parts[i].Address, err)
		}
	}
	if r.Limit != nil {
		q.Limit = convert.ResourceToProto(resource.NewResource(limit, external...))
	}
	if r.Guaranteed != nil {
		q.Guaranteed = convert.ResourceToProto(resource.NewResource(guaranteed, parts...))
	}
	if r.Normalization == nil {
		return nil
	}
	n, wrong := r.Normalization.normalization()
	if wrong != nil {
		return wrong
	}
	q.Normalization = convert.NormalizationToProto(n)
	return nil
}

func (y *normalization) normalization() (n resource.Normalization, wrong *fieldError) {
	if n.Minimum, wrong = y.Minimum.vector("normalization.minimum"); wrong != nil {
		return n, wrong
	}
	if n.Increment, wrong = y.Increment.vector("normalization.increment"); wrong != nil {
		return n, wrong
	}
	if n.Maximum, wrong = y.Maximum.vector("normalization.maximum"); wrong != nil {
		return n, wrong
	}
	if err := n.Validate(); err != nil {
		return n, asFieldError("normalization", err)
	}
	return n, nil
}

// keys returns the sorted keys, so that of several errors always the same one is reported.
func (s scalars) keys() []string { return slices.Sorted(maps.Keys(s)) }

// vector reads quantities by dimension.
func (s scalars) vector(field string) (resource.Vector, *fieldError) {
	text := make(map[string]string, len(s))
	for _, dimension := range s.keys() {
		if !s[dimension].IsSet() {
			return resource.Vector{}, &fieldError{field + "." + dimension, "has no value: want a quantity, or leave the line out"}
		}
		text[dimension] = s[dimension].String()
	}
	v, err := resource.ParseVector(text)
	if err != nil {
		return resource.Vector{}, asFieldError(field, err)
	}
	return v, nil
}

// asFieldError puts an error of resource or label below a field.
func asFieldError(within string, err error) *fieldError {
	if quantity, ok := errors.AsType[*resource.FieldError](err); ok {
		return &fieldError{within + "." + quantity.Field, yamlfile.Want(quantity.Value, quantity.Want)}
	}
	if of, ok := errors.AsType[*label.FieldError](err); ok { // its field is "labels[key]"
		return &fieldError{within + strings.TrimPrefix(of.Field, "labels"), yamlfile.Want(of.Value, of.Want)}
	}
	return &fieldError{within, err.Error()}
}
