package ledger

import (
	"cmp"
	"slices"

	"github.com/bursar/bursar/resource"
)

// Incident counts events of one kind in the life of an engine, as its host's agent reports them.
// It stays after the engine's end.
type Incident struct {
	Kind      IncidentKind
	Dimension string // resource.Memory or resource.CPU
	// Count is how often it happened; of a kind that lasts, how often it began.
	Count int64
	// First is when the first one began, and Last when the last one was last seen.
	First, Last Instant
	// MostUsed is the greatest use meanwhile, and Bound the limit or entitlement that it exceeded.
	// Both are in bytes or thousandths of a core; 0: not known.
	MostUsed, Bound int64
	// Ongoing: the last one goes on, or went on when the engine ended.
	Ongoing bool
}

// IncidentKind is the kind of an incident. The values are stored: only add values, never renumber
// them.
type IncidentKind uint8

// The kinds.
const (
	IncidentMemoryKill   IncidentKind = iota + 1 // the kernel killed one of its processes for lack of memory
	IncidentOverUse                              // it used more than it was entitled to
	IncidentLimitNotHeld                         // the kernel did not hold it to the limit of its cgroup
)

// Known reports whether this version has a name for the kind.
func (k IncidentKind) Known() bool { return k >= IncidentMemoryKill && k <= IncidentLimitNotHeld }

// mostIncidents bounds each number of an incident: JSON has no larger integers.
const mostIncidents = 1<<53 - 1

// same reports whether two incidents count the same events.
func (i *Incident) same(other *Incident) bool {
	return i.Kind == other.Kind && i.Dimension == other.Dimension
}

// updateIncidents stores the incidents of an engine so far, from its agent's report. It reports
// whether the change must be recorded: a count is higher, or an incident begins or ends. Other
// changes are kept in memory alone, as measurements are, so that an engine in over-use does not
// cost a commit with every heartbeat.
func (l *Ledger) updateIncidents(e *entry, said []Incident) (changed bool) {
	known := e.Incidents()
	if len(said) == 0 && len(known) == 0 {
		return false // nearly always
	}
	next, changed := mergeIncidents(l.now, known, said)
	if !slices.Equal(next, known) {
		e.note(func(n *Notes) { n.Incidents = next })
	}
	return changed
}

// lastIncidents does so when the engine ends. A message without incidents, as from an older agent,
// leaves them as they are.
func (l *Ledger) lastIncidents(e *entry, said []Incident) {
	if len(said) > 0 {
		l.updateIncidents(e, said)
	}
}

// mergeIncidents returns the incidents of an engine with those of a report. Counts never fall: an
// agent that has lost its state begins anew. There is one entry for each kind and dimension, so no
// report can make the result large. Lists may be shared, so none is changed.
func mergeIncidents(now Instant, known, said []Incident) (merged []Incident, changed bool) {
	merged = slices.Clone(known)
	for i := range merged { // unless the report says it again
		merged[i].Ongoing = false
	}
	for i := range said {
		more, ok := said[i].clean(now)
		if !ok {
			continue
		}
		at := slices.IndexFunc(merged, func(m Incident) bool { return m.same(&more) })
		if at < 0 {
			merged = append(merged, more)
			continue
		}
		m := &merged[at]
		m.Count, m.MostUsed = max(m.Count, more.Count), max(m.MostUsed, more.MostUsed)
		m.First, m.Last = min(m.First, more.First), max(m.Last, more.Last)
		m.Bound, m.Ongoing = cmp.Or(more.Bound, m.Bound), m.Ongoing || more.Ongoing
	}
	slices.SortFunc(merged, func(a, b Incident) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Dimension, b.Dimension))
	})
	return slices.Clip(merged), !slices.EqualFunc(merged, known, func(m, k Incident) bool {
		return m.same(&k) && m.Count == k.Count && m.Ongoing == k.Ongoing
	})
}

// clean is the incident with values that the ledger can keep and show. Times of the future count as
// now. It is not ok if this version does not know the kind or the dimension, or nothing happened.
func (i *Incident) clean(now Instant) (clean Incident, ok bool) {
	clean = *i
	if !i.Kind.Known() || i.Dimension != resource.Memory && i.Dimension != resource.CPU || i.Count <= 0 {
		return clean, false
	}
	clean.Count = min(i.Count, mostIncidents)
	clean.MostUsed, clean.Bound = min(max(0, i.MostUsed), mostIncidents), min(max(0, i.Bound), mostIncidents)
	clean.Last = min(cmp.Or(max(0, i.Last), now), now)
	clean.First = min(cmp.Or(max(0, i.First), clean.Last), clean.Last)
	return clean, true
}
