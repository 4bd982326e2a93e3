package tracker

import (
	"cmp"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/bursar/bursar/agent/policy"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/resource"
)

// Short names of the kinds of incidents.
const (
	memoryKill   = bursarv1.IncidentKind_INCIDENT_KIND_MEMORY_KILL
	overUse      = bursarv1.IncidentKind_INCIDENT_KIND_OVER_USE
	limitNotHeld = bursarv1.IncidentKind_INCIDENT_KIND_LIMIT_NOT_HELD
)

// incident counts events of one kind and dimension in the life of an engine.
type incident struct {
	kind      bursarv1.IncidentKind
	dimension string
	count     int64
	// first is when the first one began, and last when the latest one was last observed.
	first, last time.Time
	// most is the highest use meanwhile, and bound the limit that it exceeded; 0: not known.
	most, bound int64
	// ongoing: the latest one has not ended.
	ongoing bool
}

// incidents are the incidents of one engine: one entry for each kind and dimension.
type incidents []incident

// find returns the entry, or nil if there is none.
func (s incidents) find(kind bursarv1.IncidentKind, dimension string) *incident {
	for i := range s {
		if s[i].kind == kind && s[i].dimension == dimension {
			return &s[i]
		}
	}
	return nil
}

// enter returns the entry, and creates it with count 0 if there is none.
func (s *incidents) enter(now time.Time, kind bursarv1.IncidentKind, dimension string) *incident {
	i := s.find(kind, dimension)
	if i == nil {
		*s = append(*s, incident{kind: kind, dimension: dimension, first: now})
		i = &(*s)[len(*s)-1]
	}
	return i
}

// add adds to the count.
func (i *incident) add(now time.Time, count, most, bound int64) {
	i.count += count
	i.seen(now, most, bound)
}

// begin counts a lasting incident, unless the latest one is ongoing. It reports whether it counted.
func (i *incident) begin(now time.Time, most, bound int64) bool {
	begun := !i.ongoing
	if begun {
		i.count++
	}
	i.ongoing = true
	i.seen(now, most, bound)
	return begun
}

func (i *incident) seen(now time.Time, most, bound int64) {
	i.last, i.most, i.bound = now, max(i.most, most), bound
}

// messages returns the incidents as messages of the contract.
func (s incidents) messages() (list []*bursarv1.Incident) {
	for _, i := range s {
		list = append(list, &bursarv1.Incident{
			Kind: i.kind, Dimension: i.dimension, Count: i.count, FirstTime: timestamppb.New(i.first), LastTime: timestamppb.New(i.last),
			MostUsed: i.most, Bound: i.bound, Ongoing: i.ongoing,
		})
	}
	slices.SortFunc(list, func(a, b *bursarv1.Incident) int {
		return cmp.Or(cmp.Compare(a.GetKind(), b.GetKind()), cmp.Compare(a.GetDimension(), b.GetDimension()))
	})
	return list
}

// incidentsOf converts the stored incidents of a Snapshot.
func incidentsOf(messages []*bursarv1.Incident) (s incidents) {
	for _, m := range messages {
		if s.find(m.GetKind(), m.GetDimension()) == nil {
			s = append(s, incident{
				kind: m.GetKind(), dimension: m.GetDimension(), count: m.GetCount(), first: m.GetFirstTime().AsTime(), last: m.GetLastTime().AsTime(),
				most: m.GetMostUsed(), bound: m.GetBound(), ongoing: m.GetOngoing(),
			})
		}
	}
	return s
}

// withoutIncidents returns an allocation without incidents, which the entry holds.
func withoutIncidents(a *bursarv1.Allocation) *bursarv1.Allocation {
	if len(a.GetIncidents()) == 0 {
		return a
	}
	a = proto.CloneOf(a)
	a.Incidents = nil
	return a
}

// noted marks an engine's incidents to be reported and stored.
func (t *Tracker) noted(e *entry) {
	e.kept = e.incidents.messages()
	e.noted, t.urgent = true, true
	t.unsaved.add(e.grant.GetId())
}

// MemoryKilled counts processes of an engine that the kernel has killed for lack of memory. limit
// is that of the engine's cgroup, in bytes, if the engine reached it; otherwise 0.
func (t *Tracker) MemoryKilled(id string, now time.Time, processes, limit int64) {
	e := t.entries[id]
	if e == nil || !e.tracked() || processes <= 0 {
		return
	}
	most := limit // the engine has reached it
	if e.usage != nil {
		most = max(most, e.usage.MemoryBytes)
	}
	e.incidents.enter(now, memoryKill, resource.Memory).add(now, processes, most, limit)
	t.noted(e)
}

// MemoryKills returns how many processes of an engine the kernel has killed for lack of memory, as
// far as known.
func (t *Tracker) MemoryKills(id string) int64 {
	if e := t.entries[id]; e != nil {
		if i := e.incidents.find(memoryKill, resource.Memory); i != nil {
			return i.count
		}
	}
	return 0
}

// LimitNotHeld notes that the kernel does not enforce an engine's cgroup limit, in bytes. It counts
// once until LimitHeld.
func (t *Tracker) LimitNotHeld(id string, now time.Time, limit int64) {
	e := t.entries[id]
	if e == nil || !e.tracked() {
		return
	}
	var most int64
	if e.usage != nil {
		most = e.usage.MemoryBytes
	}
	if e.incidents.enter(now, limitNotHeld, resource.Memory).begin(now, most, limit) {
		t.noted(e)
	}
}

// LimitHeld notes that the kernel enforces an engine's limit, or that the engine has none.
func (t *Tracker) LimitHeld(id string, now time.Time) {
	if e := t.entries[id]; e != nil {
		if i := e.incidents.find(limitNotHeld, resource.Memory); i != nil && i.ongoing {
			i.ongoing, i.last = false, now
			t.noted(e)
		}
	}
}

// Incidents returns the incidents of an engine.
func (t *Tracker) Incidents(id string) []*bursarv1.Incident {
	if e := t.entries[id]; e != nil {
		return e.incidents.messages()
	}
	return nil
}

// cpuJudged is how many measurements an agent needs after its start before it can say that an
// engine does not use too much CPU: a mean needs several.
const cpuJudged = 5

// noteOverUse counts the over-uses of a measurement. An over-use that was stored as ongoing when
// the last incarnation ended is not counted again if it still goes on.
func (t *Tracker) noteOverUse(now time.Time, e *entry, usage *Usage, over []policy.OverUse) {
	e.judged++
	for _, o := range over {
		most := o.Used
		if usage != nil && o.Dimension == resource.Memory {
			most = max(most, usage.UnreclaimableBytes)
		}
		if e.incidents.enter(now, overUse, o.Dimension).begin(now, most, o.Entitled) {
			t.noted(e)
		}
	}
	for i := range e.incidents {
		n := &e.incidents[i]
		if n.kind != overUse || !n.ongoing || slices.ContainsFunc(over, func(o policy.OverUse) bool { return o.Dimension == n.dimension }) {
			continue
		}
		if usage != nil && !usage.Partial && (n.dimension == resource.Memory || e.judged >= cpuJudged) {
			n.ongoing = false
			t.noted(e)
		}
	}
}
