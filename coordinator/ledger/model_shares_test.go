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
		if a.rule.Selector.String() != "*" && (a.rule.Weight > 0 || !a.rule.Guaranteed.IsUnset()) {
			return a.name, &a.rule
		}
	}
	return "user " + labels.Value(label.User), nil
}

// share is the value of the fair share of some labels: the largest fraction of everything, by
// weight; those that have less than they are guaranteed come before all others.
func (m *model) share(labels label.Set) (value float64) {
	key, q := m.shareOf(labels)
	has := make(map[string]int64)
	for _, r := range m.rows {
		if other, _ := m.shareOf(r.Labels); other == key && r.State.Holds() {
			for dimension, quantity := range r.Entitled.All() {
				has[dimension] += quantity
			}
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
	if q == nil {
		return value + beyondGuarantee
	}
	value /= float64(max(1, q.Weight))
	for dimension, least := range q.Guaranteed.All() {
		if has[dimension] >= least {
			return value + beyondGuarantee
		}
	}
	if q.Guaranteed.IsUnset() {
		value += beyondGuarantee
	}
	return value
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
