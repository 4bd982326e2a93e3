package ledger_test

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/internal/identity"
	"github.com/bursar/bursar/resource"
)

func memoryKills(count int64, most, bound int64) ledger.Incident {
	return ledger.Incident{Kind: ledger.IncidentMemoryKill, Dimension: resource.Memory, Count: count, First: start, Last: start, MostUsed: most, Bound: bound}
}

func overUsed(ongoing bool) ledger.Incident {
	return ledger.Incident{Kind: ledger.IncidentOverUse, Dimension: resource.Memory, Count: 1, First: start, Last: start, MostUsed: 9, Bound: 4, Ongoing: ongoing}
}

// A new count is a transition, as are the begin and the end of an over-use. The rest is kept
// without one, and all of it stays after the end.
func TestIncidentsStay(t *testing.T) {
	l := ready(t)
	id := reserve(t, l, "alice").ID
	run(t, l, id)
	sequence := uint64(1)
	says := func(transitions int, want []ledger.Incident, said ...ledger.Incident) {
		t.Helper()
		l.Changes()
		sequence++
		_, err := l.Sync(start, ledger.SyncCommand{
			HostID: "h1", Incarnation: 1, Sequence: sequence, Seen: l.Revision(), Engines: []ledger.EngineReport{{ID: id, Incidents: said}},
		})
		must(t, err)
		if a, _ := l.Get(id); !slices.Equal(a.Incidents(), want) {
			t.Errorf("has %+v; want %+v", a.Incidents(), want)
		}
		if got := len(l.Changes().Transitions); got != transitions {
			t.Errorf("%+v: %d transitions; want %d", said, got, transitions)
		}
	}
	says(0, nil)
	says(1, []ledger.Incident{overUsed(true)}, overUsed(true))
	says(0, []ledger.Incident{overUsed(true)}, overUsed(true))
	says(1, []ledger.Incident{overUsed(false)}, overUsed(false))
	says(1, []ledger.Incident{memoryKills(2, 7, 8), overUsed(false)}, memoryKills(2, 7, 8), overUsed(false))
	says(0, []ledger.Incident{memoryKills(2, 9, 8), overUsed(false)}, memoryKills(2, 9, 8), overUsed(false))
	// An agent that has lost its state counts from 1 again, and an older one says nothing.
	says(0, []ledger.Incident{memoryKills(2, 9, 6), overUsed(false)}, memoryKills(1, 1, 6))
	says(0, []ledger.Incident{memoryKills(2, 9, 6), overUsed(false)})
	sequence++
	_, err := l.Sync(start, ledger.SyncCommand{
		HostID: "h1", Incarnation: 1, Sequence: sequence, Ended: []ledger.EngineEnd{{ID: id, Incidents: []ledger.Incident{memoryKills(3, 9, 6)}}},
	})
	must(t, err)
	if a := last(t, l, id); a.State != ledger.Released || !slices.Equal(a.Incidents(), []ledger.Incident{memoryKills(3, 9, 6), overUsed(false)}) {
		t.Errorf("it ended as %s, and has %+v", a.State, a.Incidents())
	}
}

func TestAReleaseBringsIncidents(t *testing.T) {
	l := ready(t)
	id := reserve(t, l, "alice").ID
	run(t, l, id)
	_, err := l.Release(start, ledger.ReleaseCommand{Actor: identity.Local(), ID: id, HostID: "h1", ProcessEnded: true, Incidents: []ledger.Incident{memoryKills(1, 2, 3)}})
	must(t, err)
	if a := last(t, l, id); !slices.Equal(a.Incidents(), []ledger.Incident{memoryKills(1, 2, 3)}) {
		t.Errorf("has %+v", a.Incidents())
	}
}

func TestAnAdoptedEngineHasItsIncidents(t *testing.T) {
	l := ready(t)
	id := reserve(t, l, "alice").ID
	run(t, l, id)
	a, _ := l.Get(id)
	other := ready(t)
	_, err := other.Sync(start, ledger.SyncCommand{
		HostID: "h1", Incarnation: 1, Sequence: 2, Full: true, Engines: []ledger.EngineReport{{ID: id, Grant: &a, Incidents: []ledger.Incident{memoryKills(1, 2, 3)}}},
	})
	must(t, err)
	if a, known := other.Get(id); !known || !slices.Equal(a.Incidents(), []ledger.Incident{memoryKills(1, 2, 3)}) {
		t.Errorf("has %+v", a.Incidents())
	}
}

// Whatever a host says, an engine has few incidents, their counts never fall, and their values can
// be stored and shown.
func TestIncidentsOfAHostileAgentAreBounded(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		l := ready(t)
		id := reserve(t, l, "alice").ID
		run(t, l, id)
		number := rapid.SampledFrom([]int64{math.MinInt64, -1, 0, 1, 5, 1 << 53, math.MaxInt64})
		instants := rapid.SampledFrom([]ledger.Instant{math.MinInt64, -1, 0, 1, start, math.MaxInt64})
		before := make(map[[2]string]int64)
		for sequence := range rapid.Uint64Range(1, 5).Draw(r, "reports") {
			said := rapid.SliceOfN(rapid.Custom(func(r *rapid.T) ledger.Incident {
				return ledger.Incident{
					Kind: ledger.IncidentKind(rapid.Uint8Range(0, 6).Draw(r, "kind")), Dimension: rapid.SampledFrom([]string{"", "memory", "cpu", "\xff", "disk"}).Draw(r, "dimension"),
					Count: number.Draw(r, "count"), MostUsed: number.Draw(r, "most"), Bound: number.Draw(r, "bound"),
					First: instants.Draw(r, "first"), Last: instants.Draw(r, "last"), Ongoing: rapid.Bool().Draw(r, "ongoing"),
				}
			}), 0, 40).Draw(r, "said")
			_, err := l.Sync(start, ledger.SyncCommand{
				HostID: "h1", Incarnation: 1, Sequence: sequence + 2, Seen: l.Revision(), Engines: []ledger.EngineReport{{ID: id, Incidents: said}},
			})
			must(t, err)
			a, _ := l.Get(id)
			if len(a.Incidents()) > 6 {
				r.Fatalf("%d incidents", len(a.Incidents()))
			}
			for _, i := range a.Incidents() {
				key := [2]string{string('0' + rune(i.Kind)), i.Dimension}
				if i.Count < max(1, before[key]) || i.Count > 1<<53-1 || i.First > i.Last || i.First < 0 || i.Last > start ||
					i.MostUsed < 0 || i.MostUsed > 1<<53-1 || i.Bound < 0 || i.Bound > 1<<53-1 {
					r.Fatalf("%+v after a count of %d", i, before[key])
				}
				before[key] = i.Count
			}
		}
	})
}
