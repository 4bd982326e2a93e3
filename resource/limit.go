package resource

import (
	"slices"
	"strings"
)

// Any is, in the address of a limit of external parts, every cluster of the kind, or every path.
const Any = "*"

// NewLimits returns limits of external parts in the order of their addresses. A limit that names
// no cluster is for every one of its kind: its Cluster becomes Any. Duplicate addresses stay;
// ValidateLimits refuses them.
func NewLimits(parts ...External) []External {
	parts = slices.Clone(parts)
	for i := range parts {
		if parts[i].Cluster == "" {
			parts[i].Cluster = Any
		}
	}
	return NewResource(Vector{}, parts...).External
}

// ValidateLimits reports the first thing that is wrong with limits of external parts, as a
// *FieldError: what Resource.Validate reports, no cluster, a partition, an Any that is only a part
// of the name of a cluster, or no quantity. An Any in a path is a character of the name of a queue:
// there are no patterns.
func ValidateLimits(parts []External) error {
	if err := (Resource{External: parts}).Validate(); err != nil {
		return err
	}
	for i := range parts {
		e := &parts[i]
		field := "external[" + e.Address.String() + "]"
		switch {
		case e.Partition != "":
			return &FieldError{field + ".partition", e.Partition, "no partition: a limit counts the parts in all of them"}
		case e.Cluster == "" || e.Cluster != Any && strings.Contains(e.Cluster, Any):
			return &FieldError{field + ".cluster", e.Cluster, `the name of a cluster, or "*" for all of the kind`}
		case e.IsUnset():
			return &FieldError{field, "none", "quantities to limit, such as memory=200GiB"}
		}
	}
	return nil
}

// ValidateGuarantees reports the first thing that is wrong with guarantees of external parts, as a
// *FieldError: what ValidateLimits reports, and more than a limit that all of a guarantee counts
// in. The limits are valid.
func ValidateGuarantees(guaranteed, limits []External) error {
	if err := ValidateLimits(guaranteed); err != nil {
		return err
	}
	for i := range guaranteed {
		g := &guaranteed[i]
		for j := range limits {
			if !limits[j].Covers(g.Address) {
				continue
			}
			for dimension, n := range g.All() {
				if most, limited := limits[j].Get(dimension); limited && n > most {
					return &FieldError{
						"external[" + g.Address.String() + "]." + dimension, FormatQuantity(dimension, n),
						"at most the limit of " + limits[j].Address.String() + ", " + FormatQuantity(dimension, most),
					}
				}
			}
		}
	}
	return nil
}

// Covers reports whether a part at the other address counts in a limit for this one. The kind is
// the same; the cluster is the same, or the limit's is Any; the path is the limit's or below it, or
// the limit's is Any. Parts in all partitions count. The other address may be that of a limit, too:
// then all parts of that one count in this one.
func (a Address) Covers(part Address) bool {
	if a.Kind != part.Kind || a.Cluster != Any && a.Cluster != part.Cluster {
		return false
	}
	rest, inside := strings.CutPrefix(part.Path, a.Path)
	return a.Path == Any || inside && (rest == "" || rest[0] == '.')
}
