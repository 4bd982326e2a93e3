package quotafile

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/bursar/bursar/internal/spelling"
	"github.com/bursar/bursar/internal/yamlfile"
	"github.com/bursar/bursar/resource"
)

// externalKey is the key of the external parts in a limit or a guarantee.
const externalKey = "external"

// quantities reads a limit or a guarantee: its quantities by dimension, and its external parts.
func (l limit) quantities(field string) (resource.Vector, []resource.External, *fieldError) {
	here := make(scalars, len(l))
	for _, key := range slices.Sorted(maps.Keys(l)) {
		switch value := l[key]; {
		case key == externalKey && value.Maps == nil:
			return resource.Vector{}, nil, &fieldError{
				field + "." + key, "want a list of external parts, such as [{kind: yarn, memory: 200GiB}]",
			}
		case key == externalKey:
		case value.IsMap:
			return resource.Vector{}, nil, &fieldError{field + "." + key, "is a set of fields: want a single value"}
		case value.Maps != nil:
			return resource.Vector{}, nil, &fieldError{field + "." + key, "is a list: want a single value"}
		default:
			here[key] = value.Scalar
		}
	}
	v, wrong := here.vector(field)
	if wrong != nil {
		return v, nil, wrong
	}
	external, wrong := externalLimits(field+"."+externalKey, l[externalKey].Maps)
	return v, external, wrong
}

// externalLimits reads limits or guarantees of external parts. An absent part of the place means
// any.
func externalLimits(field string, list []map[string]yamlfile.Scalar) ([]resource.External, *fieldError) {
	external := make([]resource.External, 0, len(list))
	places := make(map[resource.Address]int, len(list))
	for i, item := range list {
		at := fmt.Sprintf("%s[%d]", field, i)
		if item == nil {
			return nil, &fieldError{at, "is no map: want a kind and quantities, such as {kind: yarn, memory: 200GiB}"}
		}
		e := resource.External{Address: resource.Address{Cluster: resource.Any, Path: resource.Any}}
		quantities := make(scalars, len(item))
		for _, key := range slices.Sorted(maps.Keys(item)) {
			value := item[key]
			switch into := map[string]*string{
				"kind": &e.Kind, "cluster": &e.Cluster, "path": &e.Path, "partition": &e.Partition,
			}[key]; {
			case into == nil:
				quantities[key] = value
			case !value.IsSet():
				return nil, &fieldError{at + "." + key, "has no value: want one, or leave it out"}
			default:
				name, rest, quoted, ok := spelling.CutName(value.String(), "")
				switch {
				case !ok || rest != "":
					return nil, &fieldError{at + "." + key, yamlfile.Want(value.String(), `a name as it is, or all of it in double quotes, such as '"root.a*"'`)}
				case key == "path" && !quoted && name != resource.Any && strings.Contains(name, resource.Any):
					return nil, &fieldError{at + "." + key, yamlfile.Want(name, `the full path of a queue, for all below it too, or "*" for all queues; a name with a * in it in double quotes, such as '"root.a*"'`)}
				}
				*into = name
			}
		}
		if e.Kind == "" {
			return nil, &fieldError{at + ".kind", "missing: want the kind of a provider, such as yarn"}
		}
		var wrong *fieldError
		if e.Vector, wrong = quantities.vector(at); wrong != nil {
			key := strings.TrimPrefix(wrong.field, at+".")
			if meant := cmp.Or(placeWords[strings.ToLower(key)], resource.Meant(key)); meant != "" {
				wrong.reason = yamlfile.Want(quantities[key].String(), "the quantity of a countable "+key+"; did you mean "+meant+"?")
			}
			return nil, wrong
		}
		e = resource.NewLimits(e)[0]
		if err := resource.ValidateLimits([]resource.External{e}); err != nil {
			return nil, inLimit(at, e.Address, err)
		}
		if before, twice := places[e.Address]; twice {
			return nil, &fieldError{at, fmt.Sprintf("%s: already the place of %s[%d]: want one entry for it", e.Address, field, before)}
		}
		places[e.Address] = i
		external = append(external, e)
	}
	if err := resource.ValidateLimits(resource.NewLimits(external...)); err != nil {
		return nil, asFieldError(field, err)
	}
	return external, nil
}

// inLimit moves an error about one limit to its place in the list.
func inLimit(at string, place resource.Address, err error) *fieldError {
	wrong, ok := errors.AsType[*resource.FieldError](err)
	if !ok {
		return &fieldError{at, err.Error()}
	}
	name := "external[" + place.String() + "]"
	if len(wrong.Field) < len(name) || wrong.Field[:len(name)] != name {
		return asFieldError(at, err)
	}
	return &fieldError{at + wrong.Field[len(name):], yamlfile.Want(wrong.Value, wrong.Want)}
}
