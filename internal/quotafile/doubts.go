package quotafile

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/bursar/bursar/internal/yamlfile"
	"github.com/bursar/bursar/resource"
)

// mostDoubts is the largest number of doubts about a file.
const mostDoubts = 20

// Doubts returns the values in a file that are probably mistakes, although Parse accepts them:
// sizes of a few bytes without a unit, and other systems' words, such as vcores, in external parts.
// They are in the order of the rules, at most 20. A file that is already in force stays valid; a
// caller can reject a new one.
func Doubts(name string, data []byte) (list []*Error) {
	doc, err := yamlfile.Parse(name, data)
	if err != nil {
		return nil
	}
	var f file
	if doc.Decode(&f) != nil {
		return nil
	}
	for i := range f.Quotas {
		for _, wrong := range f.Quotas[i].doubts() {
			if list = append(list, doc.At(indexPath(i)+"."+wrong.field, wrong.reason)); len(list) == mostDoubts {
				return list
			}
		}
	}
	return list
}

func (r *rule) doubts() (list []fieldError) {
	for _, part := range []struct {
		field string
		limit limit
	}{{"limit", r.Limit}, {"guaranteed", r.Guaranteed}} {
		for _, key := range slices.Sorted(maps.Keys(part.limit)) {
			if key != externalKey {
				list = append(list, doubt(part.field, key, part.limit[key].Scalar)...)
				continue
			}
			for i, item := range part.limit[key].Maps {
				at := fmt.Sprintf("%s.%s[%d]", part.field, key, i)
				for _, name := range slices.Sorted(maps.Keys(item)) {
					if meant := resource.Meant(name); meant != "" {
						list = append(list, fieldError{at + "." + name, yamlfile.Want(name, "a countable of the cluster; did you mean "+meant+"?")})
					}
					list = append(list, doubt(at, name, item[name])...)
				}
			}
		}
	}
	if n := r.Normalization; n != nil {
		for _, part := range []struct {
			field  string
			vector scalars
		}{{"minimum", n.Minimum}, {"increment", n.Increment}, {"maximum", n.Maximum}} {
			for _, key := range part.vector.keys() {
				list = append(list, doubt("normalization."+part.field, key, part.vector[key])...)
			}
		}
	}
	return list
}

// doubt returns the doubt about a quantity; nil if there is none.
func doubt(within, dimension string, value yamlfile.Scalar) []fieldError {
	switch dimension {
	case resource.Memory, resource.CPU, resource.AMMemory, resource.AMCPU:
		_, err := resource.ParseTyped(dimension, value.String())
		if wrong, is := errors.AsType[*resource.FieldError](err); is {
			return []fieldError{{within + "." + dimension, yamlfile.Want(wrong.Value, wrong.Want)}}
		}
	}
	return nil
}

// placeWords maps words that people write by mistake to the right keys of a limit's place.
var placeWords = map[string]string{
	"kinds": "kind", "type": "kind", "provider": "kind",
	"clusters": "cluster", "clustername": "cluster",
	"paths": "path", "queue": "path", "queues": "path", "queuename": "path", "namespace": "path",
	"partitions": "partition", "label": "partition",
}
