package placement

import (
	"slices"

	"github.com/bursar/bursar/label"
	"github.com/bursar/bursar/resource"
)

// signature is the part of a query that does not change with every request, and for which a view
// may be kept: wishes and countables. Few different amounts of countables are asked for.
type signature struct {
	required, preferred label.Set
	instances           int64 // 0 for one or none: see gradeSpent
	custom              []resource.Quantity
}

// plain reports whether the signature asks for nothing, so that every host qualifies.
func (g *signature) plain() bool {
	return len(g.required) == 0 && len(g.preferred) == 0 && !g.counted()
}

func (g *signature) counted() bool { return g.instances != 0 || len(g.custom) != 0 }

func (g *signature) equal(other *signature) bool {
	return g.instances == other.instances && len(g.required) == len(other.required) && len(g.preferred) == len(other.preferred) &&
		covers(g.custom, other.custom) && covers(other.custom, g.custom) &&
		g.required.Equal(other.required) && g.preferred.Equal(other.preferred)
}

// includes reports whether every host that satisfies the other satisfies this one, which prefers
// nothing.
func (g *signature) includes(other *signature) bool {
	if len(g.preferred) != 0 || g.instances > other.instances || len(g.required) > len(other.required) {
		return false
	}
	for _, l := range g.required {
		if !slices.Contains(other.required, l) {
			return false
		}
	}
	return covers(other.custom, g.custom)
}

// covers reports whether the first list has at least what the second one has.
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
	return h.labels.MatchesFilter(g.required) && g.countsFit(h, limit)
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

// matches counts the preferred labels that the host has.
func (g *signature) matches(h *host) int {
	n := 0
	for i := range g.preferred {
		if h.labels.MatchesFilter(g.preferred[i : i+1]) {
			n++
		}
	}
	return n
}
