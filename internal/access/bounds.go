package access

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/bursar/bursar/internal/yamlfile"
	"github.com/bursar/bursar/label"
	"github.com/bursar/bursar/resource"
)

// Bounds are the most that a host may announce of itself. They come from the identity of its agent.
type Bounds struct {
	// Capacity bounds the dimensions that it lists. It removes custom countables that it does not
	// list. Nil: no bound.
	Capacity *resource.Vector
	// Labels are the allowed values of each label; * allows any value. A label that is not listed
	// is not allowed. Nil: no bound.
	Labels map[string][]string
}

// BoundsOf returns the bounds of a host from its agent's identities; nil if it has none.
func (i *Identities) BoundsOf(host string) *Bounds { return i.bounds[host] }

// CutCapacity returns the part of a capacity within the bounds, and describes the excess.
func (b *Bounds) CutCapacity(capacity resource.Vector) (cut resource.Vector, excess []string) {
	if b == nil || b.Capacity == nil {
		return capacity, nil
	}
	cut = capacity
	for dimension, quantity := range capacity.All() {
		most, listed := b.Capacity.Get(dimension)
		fixed := dimension == resource.Memory || dimension == resource.CPU || dimension == resource.Instances
		switch {
		case !listed && !fixed:
			cut = cut.Without(dimension)
			excess = append(excess, fmt.Sprintf("%s: %s, removed", dimension, resource.FormatQuantity(dimension, quantity)))
		case listed && quantity > most:
			cut = cut.With(dimension, most)
			excess = append(excess, fmt.Sprintf("%s: %s, cut to %s", dimension, resource.FormatQuantity(dimension, quantity), resource.FormatQuantity(dimension, most)))
		}
	}
	// a host that does not announce a dimension would have no limit in it
	for dimension, most := range b.Capacity.All() {
		if !cut.Has(dimension) && (dimension == resource.Memory || dimension == resource.CPU || dimension == resource.Instances) {
			cut = cut.With(dimension, most)
			excess = append(excess, fmt.Sprintf("%s: no limit, cut to %s", dimension, resource.FormatQuantity(dimension, most)))
		}
	}
	return cut, excess
}

// CutLabels returns the labels that the bounds allow, and describes the others.
func (b *Bounds) CutLabels(labels label.Set) (cut label.Set, excess []string) {
	if b == nil || b.Labels == nil {
		return labels, nil
	}
	for _, l := range labels {
		if allowed := b.Labels[l.Key]; slices.Contains(allowed, l.Value) || slices.Contains(allowed, label.Any) {
			cut = append(cut, l)
		} else {
			excess = append(excess, fmt.Sprintf("label %s=%s, removed", l.Key, l.Value))
		}
	}
	return cut, excess
}

// bounds reads the bounds of the agent's host; nil if the identity has none.
func (l identityYAML) bounds() (*Bounds, *wrongField) {
	if l.Capacity == nil && l.Labels == nil {
		return nil, nil
	}
	b := &Bounds{}
	if l.Capacity != nil {
		texts := make(map[string]string, len(l.Capacity))
		for dimension, quantity := range l.Capacity {
			texts[dimension] = quantity.String()
		}
		v, err := resource.ParseVector(texts)
		if err == nil {
			err = v.Validate()
		}
		if err != nil {
			return nil, &wrongField{"capacity", err.Error()}
		}
		b.Capacity = &v
	}
	if l.Labels != nil {
		b.Labels = make(map[string][]string, len(l.Labels))
		for key, values := range l.Labels {
			for _, value := range values {
				if _, err := label.FromMap(map[string]string{key: value.String()}); err != nil && value.String() != label.Any || value.String() == "" {
					return nil, &wrongField{"labels." + key, yamlfile.Want(value.String(), "a label's value, a list of them, or * for any")}
				}
				b.Labels[key] = append(b.Labels[key], value.String())
			}
		}
	}
	return b, nil
}

// format writes the bounds in the form of the file.
func (b *Bounds) format(add func(key, value string)) {
	if b == nil {
		return
	}
	if b.Capacity != nil {
		var list []string
		for dimension, quantity := range b.Capacity.All() {
			list = append(list, quoted(dimension)+": "+quoted(resource.FormatQuantity(dimension, quantity)))
		}
		add("capacity", "{"+strings.Join(list, ", ")+"}")
	}
	if b.Labels != nil {
		var list []string
		for _, key := range slices.Sorted(maps.Keys(b.Labels)) {
			var values []string
			for _, value := range b.Labels[key] {
				values = append(values, quoted(value))
			}
			list = append(list, quoted(key)+": ["+strings.Join(values, ", ")+"]")
		}
		add("labels", "{"+strings.Join(list, ", ")+"}")
	}
}
