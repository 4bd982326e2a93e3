package placement

import (
	"slices"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/label"
	"github.com/bursar/bursar/resource"
)

// signature is the part of a query that does not change with every request, and for which a view
// may be kept: wishes and countables. Few different amounts of countables are asked for.
type signature struct {
	required, preferred label.Set
	// Conditions on labels: all must hold, none may hold, and more that hold are better.
	must, never, better []label.Rule
	instances           int64 // 0 for one or none: see gradeSpent
	custom              []resource.Quantity
}

// plain reports whether the signature asks for nothing, so that every host qualifies.
func (g *signature) plain() bool {
	return len(g.required) == 0 && !g.ruled() && g.preferences() == 0 && !g.counted()
}

// ruled reports whether conditions restrict the qualifying hosts.
func (g *signature) ruled() bool { return len(g.must)+len(g.never) != 0 }

// preferences returns the number of labels and conditions that make a host better.
func (g *signature) preferences() int { return len(g.preferred) + len(g.better) }

func (g *signature) counted() bool { return g.instances != 0 || len(g.custom) != 0 }

func (g *signature) equal(other *signature) bool {
	return g.instances == other.instances && len(g.required) == len(other.required) && len(g.preferred) == len(other.preferred) &&
		covers(g.custom, other.custom) && covers(other.custom, g.custom) &&
		g.required.Equal(other.required) && g.preferred.Equal(other.preferred) &&
		sameRules(g.must, other.must) && sameRules(g.never, other.never) && sameRules(g.better, other.better)
}

// sameRules reports whether both lists have the same conditions, in any order.
func sameRules(list, other []label.Rule) bool {
	return len(list) == len(other) && hasRules(list, other) && hasRules(other, list)
}

// hasRules reports whether the first list has every condition of the second one.
func hasRules(list, other []label.Rule) bool {
	for i := range other {
		if !hasRule(list, &other[i]) {
			return false
		}
	}
	return true
}

func hasRule(list []label.Rule, rule *label.Rule) bool {
	for i := range list { // lists are short
		if list[i].Equal(*rule) {
			return true
		}
	}
	return false
}

// includes reports whether every host that satisfies the other signature satisfies this one, which
// has no preferences.
func (g *signature) includes(other *signature) bool {
	if g.preferences() != 0 || g.instances > other.instances || len(g.required) > len(other.required) {
		return false
	}
	for _, l := range g.required {
		if !slices.Contains(other.required, l) {
			return false
		}
	}
	return covers(other.custom, g.custom) && hasRules(other.must, g.must) && hasRules(other.never, g.never)
}

// covers reports whether the first list has at least the quantities of the second one.
func covers(list, other []resource.Quantity) bool {
	for i := range other {
		if other[i].Value > amount(list, other[i].Name) {
			return false
		}
	}
	return true
}

// admits reports whether the host has the labels and is large enough for the counts. It depends
// only on labels and limits.
func (g *signature) admits(h *host) bool {
	return g.labelled(h) && g.countsFit(h, limit)
}

// labelled reports whether the host has the labels, and meets the conditions.
func (g *signature) labelled(h *host) bool {
	rules := ledger.Rules{Required: g.must, Avoided: g.never}
	return h.labels.MatchesFilter(g.required) && rules.Admit(h.labels)
}

// countsFit reports whether a host has the counts.
func (g *signature) countsFit(h *host, of aspect) bool {
	if g.instances > h.amounts[of].instances {
		return false
	}
	for i := range g.custom {
		if q := &g.custom[i]; q.Value > h.count(of, q.Name) {
			return false
		}
	}
	return true
}

// matches counts the preferred labels and conditions that the host has.
func (g *signature) matches(h *host) int {
	n := 0
	for i := range g.preferred {
		if h.labels.MatchesFilter(g.preferred[i : i+1]) {
			n++
		}
	}
	for i := range g.better {
		if g.better[i].Holds(h.labels) {
			n++
		}
	}
	return n
}
