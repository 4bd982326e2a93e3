package ledger_test

import (
	"slices"
	"testing"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/internal/identity"
	"github.com/bursar/bursar/label"
	"github.com/bursar/bursar/resource"
)

// use is a measurement in bytes and thousandths of a core.
func use(memory, cpu int64) resource.Vector {
	return resource.Vector{}.WithMemory(memory).WithCPU(cpu)
}

// run confirms a reservation with a process.
func run(t *testing.T, l *ledger.Ledger, id ledger.ID) {
	t.Helper()
	_, err := l.Confirm(start, ledger.ConfirmCommand{Actor: identity.Local(), ID: id, Process: ledger.Process{PID: 1}})
	must(t, err)
}

// last returns the last transition of an allocation.
func last(t *testing.T, l *ledger.Ledger, id ledger.ID) ledger.Allocation {
	t.Helper()
	for _, a := range slices.Backward(l.Changes().Transitions) {
		if a.ID == id {
			return a
		}
	}
	t.Fatalf("%s has made no transition", id)
	return ledger.Allocation{}
}

// What an engine used last, and at most, is known after its end. The agent's own peak counts if it
// has one: it measures more often than it reports, and outlives a change of leader.
func TestWhatAnEngineUsedIsKnownAfterItsEnd(t *testing.T) {
	sync := func(l *ledger.Ledger, sequence uint64, c ledger.SyncCommand) {
		t.Helper()
		c.HostID, c.Incarnation, c.Sequence, c.Seen = "h1", 1, sequence, l.Revision()
		_, err := l.Sync(start, c)
		must(t, err)
	}
	for name, test := range map[string]struct {
		reports        []ledger.EngineReport
		end            *ledger.EngineEnd
		measured, peak resource.Vector
	}{
		"never measured": {},
		"the most of each": {
			reports:  []ledger.EngineReport{{Measured: use(5, 100)}, {Measured: use(3, 900)}, {Measured: use(4, 200)}},
			measured: use(4, 200), peak: use(5, 900),
		},
		"the agent's peak": {
			reports:  []ledger.EngineReport{{Measured: use(5, 100), Peak: use(50, 100)}, {Measured: use(3, 0), Peak: use(50, 700)}},
			measured: use(3, 0), peak: use(50, 700),
		},
		"the end has the last word": {
			reports:  []ledger.EngineReport{{Measured: use(5, 100)}},
			end:      &ledger.EngineEnd{Measured: use(6, 0), Peak: use(9, 400)},
			measured: use(6, 0), peak: use(9, 400),
		},
		"an end of an older agent says nothing": {
			reports:  []ledger.EngineReport{{Measured: use(5, 100)}},
			end:      &ledger.EngineEnd{},
			measured: use(5, 100), peak: use(5, 100),
		},
		"it ended before the first report": {
			end:      &ledger.EngineEnd{Measured: use(6, 0), Peak: use(9, 400)},
			measured: use(6, 0), peak: use(9, 400),
		},
	} {
		l := ready(t)
		id := reserve(t, l, "alice").ID
		run(t, l, id)
		sequence := uint64(2)
		for _, r := range test.reports {
			r.ID = id
			sync(l, sequence, ledger.SyncCommand{Engines: []ledger.EngineReport{r}})
			sequence++
		}
		if test.end != nil {
			test.end.ID = id
			sync(l, sequence, ledger.SyncCommand{Ended: []ledger.EngineEnd{*test.end}})
		} else {
			_, err := l.Release(start, ledger.ReleaseCommand{Actor: identity.Local(), ID: id, Force: true})
			must(t, err)
		}
		got := last(t, l, id)
		if got.State != ledger.Released || !got.Measured.Equal(test.measured) || !got.Peak.Vector().Equal(test.peak) {
			t.Errorf("%s: %s, used %s, at most %s; want %s, at most %s", name, got.State, got.Measured, got.Peak.Vector(), test.measured, test.peak)
		}
	}
}

// What the agent says of a stop that failed is a transition, and ends with the engine or when it is
// not so any more.
func TestAFailedStopIsKnown(t *testing.T) {
	l := ready(t)
	id := reserve(t, l, "alice").ID
	run(t, l, id)
	sequence := uint64(1)
	says := func(text string, transitions int) {
		t.Helper()
		l.Changes()
		sequence++
		_, err := l.Sync(start, ledger.SyncCommand{
			HostID: "h1", Incarnation: 1, Sequence: sequence, Seen: l.Revision(), Engines: []ledger.EngineReport{{ID: id, StopError: text}},
		})
		must(t, err)
		if a, _ := l.Get(id); a.StopError() != text {
			t.Errorf("says %q; want %q", a.StopError(), text)
		}
		if got := len(l.Changes().Transitions); got != transitions {
			t.Errorf("%q: %d transitions; want %d", text, got, transitions)
		}
	}
	says("", 0)
	says("process 1 is of another user", 1)
	says("process 1 is of another user", 0)
	says("", 1)
	says("it does not end", 1)
	sequence++
	_, err := l.Sync(start, ledger.SyncCommand{HostID: "h1", Incarnation: 1, Sequence: sequence, Ended: []ledger.EngineEnd{{ID: id}}})
	must(t, err)
	if a := last(t, l, id); a.State != ledger.Released || a.StopError() != "" {
		t.Errorf("it ended after all as %s, and says %q", a.State, a.StopError())
	}
}

// What was asked for stays as it was asked for; what normalization made of it is the entitlement.
func TestWhatWasAskedForIsKept(t *testing.T) {
	l := ready(t)
	must(t, l.PutQuota(start, ledger.Quota{Normalization: &resource.Normalization{
		Minimum: resource.Vector{}.WithCPU(500), Increment: resource.Vector{}.WithMemory(1024),
	}}))
	result, err := l.Allocate(start, ledger.AllocateCommand{
		Actor: identity.Local(), Labels: label.Of("user", "alice"), Resource: resource.NewResource(resource.Vector{}.WithMemory(1025)),
	})
	must(t, err)
	a := result.Allocation
	if want := (resource.Vector{}).WithMemory(1025).WithInstances(1); !a.Requested.Vector.Equal(want) {
		t.Errorf("requested %s; want %s", a.Requested, want)
	}
	if want := (resource.Vector{}).WithMemory(2048).WithCPU(500).WithInstances(1); !a.Entitled.Vector.Equal(want) {
		t.Errorf("entitled to %s; want %s", a.Entitled, want)
	}
}
