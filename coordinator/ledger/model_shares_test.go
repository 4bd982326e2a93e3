package ledger_test

import (
	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/label"
	"github.com/bursar/bursar/resource"
)

// shareOf names the share of some labels: that of the account of their first rule with a weight or
// a guarantee, else that of their user.
func (m *model) shareOf(labels label.Set) (string, *ledger.Quota) {
	for _, a := range m.quotas(labels) {
		if a.rule.Selector.String() != "*" && (a.rule.Weight > 0 || !a.rule.Guaranteed.IsUnset() || len(a.rule.GuaranteedExternal) > 0) {
			return a.name, &a.rule
		}
	}
	return "user " + labels.Value(label.User), nil
}

// share is the value of the fair share of some labels: the largest fraction of everything on hosts
// and in each cluster, by weight; those that have less than they are guaranteed come before all
// others.
func (m *model) share(labels label.Set) (value float64) {
	key, q := m.shareOf(labels)
	has := make(map[string]int64)
	var abroad []resource.External
	for _, r := range m.rows {
		if other, _ := m.shareOf(r.Labels); other == key && r.State.Holds() {
			for dimension, quantity := range r.Entitled.All() {
				has[dimension] += quantity
			}
			abroad = append(abroad, r.Entitled.External...)
		}
	}
	for dimension := range has {
		everything := int64(0)
		for _, h := range m.hosts {
			if dimension == resource.Instances {
				break
			}
			everything += hostAccount(h).most[dimension]
		}
		if everything > 0 {
			value = max(value, float64(has[dimension])/float64(everything))
		}
	}
	for _, c := range m.clusters {
		for dimension, everything := range c.capacity {
			in := resource.Address{Kind: c.name.Kind, Cluster: c.name.Cluster, Path: "*"}
			if n := heldIn(abroad, in, dimension); everything > 0 {
				value = max(value, float64(n)/float64(everything))
			}
		}
	}
	if q == nil {
		return value + beyondGuarantee
	}
	value /= float64(max(1, q.Weight))
	for dimension, least := range q.Guaranteed.All() {
		if has[dimension] >= least {
			return value + beyondGuarantee
		}
	}
	for _, g := range q.GuaranteedExternal {
		for dimension, least := range g.All() {
			if heldIn(abroad, g.Address, dimension) >= least {
				return value + beyondGuarantee
			}
		}
	}
	if q.Guaranteed.IsUnset() && len(q.GuaranteedExternal) == 0 {
		value += beyondGuarantee
	}
	return value
}

// heldIn is how much of a dimension some parts have in the queues that an address stands for.
func heldIn(parts []resource.External, in resource.Address, dimension string) (n int64) {
	for _, part := range parts {
		if (modelAccount{place: &in}).counts(part.Address) {
			quantity, _ := part.Get(dimension)
			n += quantity
		}
	}
	return n
}

// topLimits is what the top queues may have together, by dimension. Of applications and engines no
// share is counted, and what one of the queues does not limit is not known.
func (c *modelCluster) topLimits() map[string]int64 {
	sum := make(map[string]int64)
	for _, dimension := range []string{resource.Memory, resource.CPU, "gpu"} {
		for at, r := range c.queues {
			limit, limited := r.Limit.Get(dimension)
			switch {
			case at.Path != "root":
			case !limited && dimension != "gpu":
				sum[dimension] = -1 << 32
			default:
				sum[dimension] += limit
			}
		}
	}
	return sum
}

// beyondGuarantee puts shares that have all they are guaranteed behind all that have not.
const beyondGuarantee = 1 << 20

// before reports whether one that waits goes before another: by priority, fair share, arrival.
func (m *model) before(a, b *modelRow) bool {
	if a.Priority != b.Priority {
		return a.Priority > b.Priority
	}
	if x, y := m.share(a.Labels), m.share(b.Labels); x != y {
		return x < y
	}
	return a.ID < b.ID
}
