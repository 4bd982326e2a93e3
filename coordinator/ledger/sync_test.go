package ledger_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/identity"
	"github.com/bursar/bursar/label"
	"github.com/bursar/bursar/resource"
)

// ready is a ledger with one host that has 1 TiB of memory and has reported.
func ready(t *testing.T) *ledger.Ledger {
	t.Helper()
	l := ledger.New(ledger.Config{}, newPlainPlacer())
	available := int64(1 << 40)
	_, err := l.Register(start, ledger.RegisterCommand{HostID: "h1", Incarnation: 1, Capacity: resource.Vector{}.WithMemory(available)})
	must(t, err)
	_, err = l.Sync(start, ledger.SyncCommand{
		HostID: "h1", Incarnation: 1, Sequence: 1, Full: true, Sample: &ledger.Sample{MemoryAvailable: &available},
	})
	must(t, err)
	return l
}

func reserve(t *testing.T, l *ledger.Ledger, user string) ledger.Allocation {
	t.Helper()
	result, err := l.Allocate(start, ledger.AllocateCommand{
		Actor: identity.Local(), Labels: label.Of("user", user), Resource: resource.NewResource(resource.Vector{}.WithMemory(1)),
	})
	must(t, err)
	if result.Allocation.State != ledger.Reserved {
		t.Fatalf("%s is %s; want reserved", result.Allocation.ID, result.Allocation.State)
	}
	return result.Allocation
}

// A ledger keeps what ended between two reports by name, but not without bound. An agent that has missed more than it keeps
// is told all that there is instead.
func TestAnAgentThatHasMissedTooMuchIsToldAllThereIs(t *testing.T) {
	for _, ends := range []int{1, 200, 256, 257, 1000} {
		l := ready(t)
		stays := reserve(t, l, "alice")
		var gone []ledger.ID
		for range ends {
			gone = append(gone, reserve(t, l, "bob").ID)
		}
		answer, err := l.Sync(start, ledger.SyncCommand{HostID: "h1", Incarnation: 1, Sequence: 2, Seen: 1})
		must(t, err)
		for _, id := range gone {
			_, err := l.Release(start, ledger.ReleaseCommand{Actor: identity.Local(), ID: id})
			must(t, err)
		}
		answer, err = l.Sync(start, ledger.SyncCommand{HostID: "h1", Incarnation: 1, Sequence: 3, Seen: answer.Revision})
		must(t, err)
		view := map[ledger.ID]bool{stays.ID: true}
		for _, id := range gone {
			view[id] = true
		}
		if answer.Complete {
			clear(view)
		}
		for _, g := range answer.Grants {
			view[g.ID] = true
		}
		for _, id := range answer.Gone {
			delete(view, id)
		}
		if len(view) != 1 || !view[stays.ID] {
			t.Errorf("after %d ends the agent knows of %d; want only the one that stays. Complete: %t, %d gone", ends, len(view), answer.Complete, len(answer.Gone))
		}
		if len(answer.Gone) > 256 {
			t.Errorf("after %d ends the answer names %d", ends, len(answer.Gone))
		}
	}
}

// Ids that agents report are not the ledger's own: whatever they are, the ones it gives out rise with the time.
func TestAnIDThatAnAgentBringsDoesNotMoveTheNextOnes(t *testing.T) {
	for _, id := range []ledger.ID{1, 12345, math.MaxUint64, math.MaxUint64 - 1, 1 << 63} {
		l := ready(t)
		before := reserve(t, l, "alice").ID
		answer, err := l.Sync(start, ledger.SyncCommand{
			HostID: "h1", Incarnation: 1, Sequence: 2, Full: true,
			Engines: []ledger.EngineReport{{ID: id, Grant: &ledger.Allocation{
				Process: ledger.Process{PID: 1}, Entitled: resource.NewResource(resource.Vector{}.WithMemory(1)),
				Created: start.Add(24 * time.Hour), Confirmed: math.MaxInt64,
			}}},
		})
		must(t, err)
		if len(answer.Grants) != 2 {
			t.Fatalf("id %d: the answer has %d allocations; want 2", id, len(answer.Grants))
		}
		adopted, _ := l.Get(id)
		if adopted.State != ledger.Active || adopted.Created > start || adopted.Confirmed > start {
			t.Errorf("id %d is %s since %d, from %d; want active, not from the future", id, adopted.State, adopted.Confirmed, adopted.Created)
		}
		next := reserve(t, l, "bob").ID
		if next <= before || next.Created() > start {
			t.Errorf("after an agent's %d the next id is %d, after %d", id, next, before)
		}
		if c := l.Changes(); c.LastID != next {
			t.Errorf("the last id is %d; want %d", c.LastID, next)
		}
		if v := l.Audit(); len(v) > 0 {
			t.Error(v)
		}
	}
}

func TestAReportWithoutAnIDOrAProcessIsNoEngine(t *testing.T) {
	l := ready(t)
	grant := ledger.Allocation{Process: ledger.Process{PID: 1}}
	noProcess := ledger.Allocation{}
	answer, err := l.Sync(start, ledger.SyncCommand{
		HostID: "h1", Incarnation: 1, Sequence: 2, Full: true,
		Engines: []ledger.EngineReport{{ID: 0, Grant: &grant}, {ID: 7, Grant: &noProcess}, {ID: 8}},
	})
	must(t, err)
	if len(answer.Grants) != 0 {
		t.Errorf("adopted: %+v", answer.Grants)
	}
}

// An engine that says it is larger than numbers can be is not counted, and nothing else is lost for it.
func TestAnEngineThatCannotBeCountedLeavesTheBooksAlone(t *testing.T) {
	l := ready(t)
	reserve(t, l, "alice")
	var engines []ledger.EngineReport
	for id := range ledger.ID(2000) {
		engines = append(engines, ledger.EngineReport{ID: id + 1, Grant: &ledger.Allocation{
			Process: ledger.Process{PID: 1}, Entitled: resource.NewResource(resource.Vector{}.WithMemory(resource.MaxQuantity)),
		}})
	}
	_, err := l.Sync(start, ledger.SyncCommand{HostID: "h1", Incarnation: 1, Sequence: 2, Full: true, Engines: engines})
	must(t, err)
	if v := l.Audit(); len(v) > 0 {
		t.Error(v)
	}
	if c := l.Counts(); c.Reserved != 1 || c.Active < 100 || c.Active >= 2000 {
		t.Errorf("%d are reserved, %d active; want 1, and as many as can be added up", c.Reserved, c.Active)
	}
}

// The more hosts there are the less often each reports, so that all together stay below a rate; and the longer one may be
// silent before it is suspect.
func TestTheIntervalGrowsWithTheHosts(t *testing.T) {
	l := ledger.New(ledger.Config{}, newPlainPlacer())
	interval := time.Duration(0)
	available := int64(8)
	for i := range 2000 {
		id := fmt.Sprintf("h%04d", i)
		got, err := l.Register(start, ledger.RegisterCommand{HostID: id, Incarnation: 1, Capacity: resource.Vector{}.WithMemory(8)})
		must(t, err)
		if want := max(5*time.Second, time.Duration(i+1)*time.Second/200); got != want {
			t.Fatalf("%d hosts report every %s; want %s", i+1, got, want)
		}
		interval = got
		_, err = l.Sync(start, ledger.SyncCommand{HostID: id, Incarnation: 1, Sequence: 1, Full: true, Sample: &ledger.Sample{MemoryAvailable: &available}})
		must(t, err)
	}
	l.Advance(start.Add(3*interval - 1))
	if c := l.Counts(); c.HostsHealthy != 2000 {
		t.Errorf("after just less than three intervals %d are healthy; want all", c.HostsHealthy)
	}
	l.Advance(start.Add(3 * interval))
	if c := l.Counts(); c.HostsSuspect != 2000 {
		t.Errorf("after three intervals %d are suspect; want all", c.HostsSuspect)
	}
}
