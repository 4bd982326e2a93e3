package sim

import (
	"slices"
	"strings"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/resource"
)

// limitAbroad adds limits and guarantees of external parts to some rules, in a world that has such
// limits. They are drawn from numbers of their own, so that other worlds are as they were without
// them.
func (w *World) limitAbroad(q ledger.Quota) ledger.Quota {
	if w.limits == nil || w.limits.IntN(3) == 0 {
		return q
	}
	for range 1 + w.limits.IntN(2) {
		at := w.drawPlace()
		if slices.ContainsFunc(q.External, func(e resource.External) bool { return e.Address == at }) {
			continue
		}
		least := int64(3)
		if q.Selector.Matches(probeLabels()) { // each cluster has one, which must get its two parts
			least = 16
		}
		v := resource.Vector{}.WithMemory((least + w.limits.Int64N(12)) * gib)
		if w.limits.IntN(2) == 0 {
			v = v.WithCPU((2 + w.limits.Int64N(6)) * 1000)
		}
		q.External = resource.NewLimits(append(q.External, resource.External{Address: at, Vector: v})...)
	}
	if w.limits.IntN(3) == 0 { // no more than any limit
		v := resource.Vector{}.WithMemory((1 + w.limits.Int64N(3)) * gib)
		q.GuaranteedExternal = resource.NewLimits(resource.External{Address: w.drawPlace(), Vector: v})
	}
	return q
}

// drawPlace draws the queues that a limit or a guarantee is for.
func (w *World) drawPlace() resource.Address {
	places := []string{"*", "*", "root", "root.a", "root.a.a1", "root.users", "root.b"}
	cluster := []string{"*", "*", "y1", "y2"}[w.limits.IntN(4)]
	return resource.Address{Kind: "yarn", Cluster: cluster, Path: places[w.limits.IntN(len(places))]}
}

// limits is what a rule limits, and what it guarantees of external parts, as a text.
func limits(q *ledger.Quota) string {
	text := resource.NewResource(q.Limit, q.External...).String()
	if len(q.GuaranteedExternal) > 0 {
		text += ", guaranteed " + resource.Resource{External: q.GuaranteedExternal}.String()
	}
	return text
}

// promises reports whether a rule guarantees something where an allocation has a part.
func (r *rules) promises(a *ledger.Allocation) bool {
	for _, q := range r.of(a.Labels) {
		for _, e := range q.GuaranteedExternal {
			if _, parts := partsIn(a, e.Address); parts > 0 {
				return true
			}
		}
	}
	return false
}

// limitOf is what a rule says of one of its accounts.
func limitOf(q *ledger.Quota, name ledger.AccountName) resource.Vector {
	if name.External == nil {
		return q.Limit
	}
	for _, e := range q.External {
		if e.Address == *name.External {
			return e.Vector
		}
	}
	return resource.Vector{}
}

// partsIn is what an allocation asks for in the places of a limit, and how many of its parts are
// there.
func partsIn(a *ledger.Allocation, limit resource.Address) (sum resource.Vector, parts int) {
	for i := range a.Entitled.External {
		part := &a.Entitled.External[i]
		inside := limit.Path == "*" || strings.HasPrefix(part.Path+".", limit.Path+".")
		if part.Kind != limit.Kind || limit.Cluster != "*" && limit.Cluster != part.Cluster || !inside {
			continue
		}
		for dimension, quantity := range part.All() {
			before, _ := sum.Get(dimension)
			sum = sum.With(dimension, before+quantity)
		}
		parts++
	}
	return sum, parts
}

// limitsOf is how often parts of an allocation must count in limits of external parts.
func (r *rules) limitsOf(a *ledger.Allocation) (n int) {
	for _, q := range r.of(a.Labels) {
		for _, e := range q.External {
			_, parts := partsIn(a, e.Address)
			n += parts
		}
	}
	return n
}
