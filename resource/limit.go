package resource

import (
	"slices"
	"strings"
)

// Any stands, in the address of a limit of external parts, for every cluster of the kind, or for
// every path.
const Any = "*"

// NewLimits returns limits of external parts in the order of their addresses. A limit without a
// cluster applies to every cluster of its kind: its Cluster becomes Any. Duplicate addresses stay;
// ValidateLimits rejects them.
func NewLimits(parts ...External) []External {
	parts = slices.Clone(parts)
	for i := range parts {
		if parts[i].Cluster == "" {
			parts[i].Cluster = Any
		}
	}
	return NewResource(Vector{}, parts...).External
}

// ValidateLimits returns the first fault in limits of external parts, as a *FieldError: the faults
// of Resource.Validate, no cluster, a partition, an Any inside the name of a cluster, or no
// quantity. An Any inside a path is an ordinary character of a queue's name: there are no patterns.
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

// ValidateGuarantees returns the first fault in guarantees of external parts, as a *FieldError: the
// faults of ValidateLimits, and a guarantee above a limit that covers it. The limits are valid.
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

// Covers reports whether a part at the other address counts in a limit for this one. The kinds must
// be equal. The clusters must be equal, or the limit's is Any. The part's path must be the limit's
// or below it, or the limit's is Any. Parts in all partitions count. The other address may also be
// a limit's: then all parts in that limit count in this one.
func (a Address) Covers(part Address) bool {
	if a.Kind != part.Kind || a.Cluster != Any && a.Cluster != part.Cluster {
		return false
	}
	rest, inside := strings.CutPrefix(part.Path, a.Path)
	return a.Path == Any || inside && (rest == "" || rest[0] == '.')
}
