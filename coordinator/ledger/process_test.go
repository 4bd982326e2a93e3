package ledger_test

import (
	"errors"
	"testing"
	"time"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/internal/identity"
	"github.com/bursar/bursar/label"
	"github.com/bursar/bursar/resource"
)

// A process is the engine of one allocation, also if its start or its boot is left out.
func TestAProcessIsTheEngineOfOneAllocation(t *testing.T) {
	one := ledger.Process{PID: 100, StartTime: 7, BootID: "boot"}
	verified := one
	verified.Verified = true
	for name, test := range map[string]struct {
		first, second ledger.Process
		user          string // of the second one
		refused, ends bool   // the second one is refused, or the first one ends
	}{
		"the same":                          {one, one, "alice", true, false},
		"the same, by another user":         {one, one, "bob", true, false},
		"without a start":                   {one, ledger.Process{PID: 100}, "alice", true, false},
		"the first without a start":         {ledger.Process{PID: 100}, one, "alice", true, false},
		"the same pid at another time":      {one, ledger.Process{PID: 100, StartTime: 8, BootID: "boot"}, "alice", false, false},
		"the same pid after a boot":         {one, ledger.Process{PID: 100, StartTime: 7, BootID: "other"}, "alice", false, false},
		"another pid":                       {one, ledger.Process{PID: 101, StartTime: 7, BootID: "boot"}, "alice", false, false},
		"none":                              {ledger.Process{}, ledger.Process{}, "alice", false, false},
		"a verified one":                    {verified, verified, "bob", true, false},
		"a claim of a verified one":         {verified, one, "bob", true, false},
		"verified, and claimed by the user": {one, verified, "alice", true, false},
		"verified, and claimed by another":  {one, verified, "bob", false, true},
	} {
		t.Run(name, func(t *testing.T) {
			l := ready(t)
			first, second := reserve(t, l, "alice").ID, reserve(t, l, test.user).ID
			_, err := l.Confirm(start, ledger.ConfirmCommand{Actor: identity.Local(), ID: first, Process: test.first})
			must(t, err)
			_, err = l.Confirm(start, ledger.ConfirmCommand{Actor: identity.Local(), ID: second, Process: test.second})
			if _, refused := errors.AsType[*ledger.StateError](err); refused != test.refused || err != nil && !refused {
				t.Errorf("the second one: %v", err)
			}
			if _, lives := l.Get(first); lives == test.ends {
				t.Errorf("the first one lives: %v", lives)
			}
			if broken := l.Audit(); len(broken) > 0 {
				t.Errorf("%v", broken)
			}
			// Once it has ended, the process is free.
			_, _ = l.Release(start, ledger.ReleaseCommand{Actor: identity.Local(), ID: first, Force: true})
			_, err = l.Confirm(start, ledger.ConfirmCommand{Actor: identity.Local(), ID: second, Process: test.second})
			must(t, err)
		})
	}
}

// engineOf is a report of an engine that the ledger does not know.
func engineOf(id ledger.ID, user string, p ledger.Process) ledger.EngineReport {
	return ledger.EngineReport{ID: id, Grant: &ledger.Allocation{
		Caller: user, Labels: label.Of("user", user), Process: p, Entitled: resource.NewResource(resource.Vector{}.WithMemory(1)), Created: start,
	}}
}

// An engine that runs is booked, also if its agent reports one process twice. The process is free
// once the last of its allocations has ended, in whichever order they end.
func TestAProcessIsFreeOnceTheLastOfItsAllocationsHasEnded(t *testing.T) {
	process := ledger.Process{PID: 100, StartTime: 7, BootID: "boot", Verified: true}
	for name, order := range map[string][]ledger.ID{"first": {1, 2, 3}, "last": {3, 2, 1}, "middle": {2, 1, 3}} {
		t.Run(name, func(t *testing.T) {
			l := ready(t)
			_, err := l.Sync(start, ledger.SyncCommand{HostID: "h1", Incarnation: 1, Sequence: 2, Full: true, Engines: []ledger.EngineReport{
				engineOf(1, "alice", process), engineOf(2, "alice", process), engineOf(3, "bob", process), engineOf(4, "bob", ledger.Process{PID: 101}),
			}})
			must(t, err)
			if l.Counts().Active != 4 {
				t.Fatalf("%d engines are booked", l.Counts().Active)
			}
			next := reserve(t, l, "carol").ID
			confirm := ledger.ConfirmCommand{Actor: identity.Local(), ID: next, Process: process}
			for _, id := range order {
				_, err := l.Confirm(start, confirm)
				if _, refused := errors.AsType[*ledger.StateError](err); !refused {
					t.Fatalf("before %s ends: %v", id, err)
				}
				_, err = l.Release(start, ledger.ReleaseCommand{Actor: identity.Local(), ID: id, Force: true})
				must(t, err)
				if broken := l.Audit(); len(broken) > 0 {
					t.Fatal(broken)
				}
			}
			_, err = l.Confirm(start, confirm)
			must(t, err)
		})
	}
}

// Each host has processes of its own, and keeps them over a restart of the coordinator, and while
// the host is lost.
func TestAProcessStaysTheEnginesOverLossAndRestart(t *testing.T) {
	process := ledger.Process{PID: 100, StartTime: 7, BootID: "boot", Verified: true}
	back := func(t *testing.T, l *ledger.Ledger, at ledger.Instant, engines ...ledger.EngineReport) {
		t.Helper()
		available := int64(8)
		_, err := l.Register(at, ledger.RegisterCommand{HostID: "h1", Incarnation: 1, Capacity: resource.Vector{}.WithMemory(8)})
		must(t, err)
		_, err = l.Sync(at, ledger.SyncCommand{HostID: "h1", Incarnation: 1, Sequence: 2, Full: true, Sample: &ledger.Sample{MemoryAvailable: &available}, Engines: engines})
		must(t, err)
	}
	for name, prepare := range map[string]func(*testing.T) (*ledger.Ledger, ledger.Instant){
		"a restart": func(t *testing.T) (*ledger.Ledger, ledger.Instant) {
			l := restored(t, ledger.Snapshot{LastID: 9, Allocations: []ledger.Allocation{{
				ID: 7, State: ledger.Active, HostID: "h1", Process: process, Labels: label.Of("user", "bob"), Created: start,
			}}})
			back(t, l, start, engineOf(7, "bob", process))
			return l, start
		},
		"a host that was lost": func(t *testing.T) (*ledger.Ledger, ledger.Instant) {
			l := ready(t)
			id := reserve(t, l, "bob").ID
			_, err := l.Confirm(start, ledger.ConfirmCommand{Actor: identity.Local(), ID: id, Process: process})
			must(t, err)
			lost := start.Add(time.Hour)
			l.Advance(lost)
			if _, lives := l.Get(id); lives {
				t.Fatal("the host is not lost")
			}
			back(t, l, lost, engineOf(id, "bob", process))
			return l, lost
		},
	} {
		t.Run(name, func(t *testing.T) {
			l, now := prepare(t)
			if l.Counts().Active != 1 {
				t.Fatalf("%d engines", l.Counts().Active)
			}
			asked, err := ask(l, now, "alice", 1)
			must(t, err)
			_, err = l.Confirm(now, ledger.ConfirmCommand{Actor: identity.Local(), ID: asked.ID, Process: process})
			if _, refused := errors.AsType[*ledger.StateError](err); !refused {
				t.Errorf("the engine of another allocation: %v", err)
			}
			if broken := l.Audit(); len(broken) > 0 {
				t.Error(broken)
			}
		})
	}
	l := ready(t)
	available := int64(8)
	_, err := l.Register(start, ledger.RegisterCommand{HostID: "h2", Incarnation: 1, Capacity: resource.Vector{}.WithMemory(8)})
	must(t, err)
	_, err = l.Sync(start, ledger.SyncCommand{HostID: "h2", Incarnation: 1, Sequence: 1, Full: true, Sample: &ledger.Sample{MemoryAvailable: &available}})
	must(t, err)
	for _, host := range []string{"h1", "h2"} {
		asked, err := ask(l, start, "alice", 1, func(c *ledger.AllocateCommand) { c.Wishes = &ledger.Wishes{Host: host} })
		must(t, err)
		_, err = l.Confirm(start, ledger.ConfirmCommand{Actor: identity.Local(), ID: asked.ID, Process: process})
		must(t, err)
	}
}

// An engine without a process, or one that is confirmed again, is not in anybody's way.
func TestAConfirmThatIsRepeatedIsOfTheSameProcess(t *testing.T) {
	l := ready(t)
	first := reserve(t, l, "alice").ID
	for _, process := range []ledger.Process{{PID: 100, StartTime: 7}, {PID: 100, StartTime: 7, Verified: true}, {PID: 100}} {
		a, err := l.Confirm(start, ledger.ConfirmCommand{Actor: identity.Local(), ID: first, Process: process})
		must(t, err)
		if a.Process.StartTime != 7 {
			t.Errorf("%+v", a.Process)
		}
	}
	if a, _ := l.Get(first); !a.Process.Verified {
		t.Error("the agent's word was not noted")
	}
}

// A subordinate user id has rights of its own: its false claim is in nobody's way, not even in that
// of another id of the same owner.
func TestAClaimOfAnotherSubordinateIDEnds(t *testing.T) {
	process := ledger.Process{PID: 100, StartTime: 7, BootID: "boot"}
	l := ready(t)
	of := func(id string) ledger.ID {
		a, err := ask(l, start, "alice", 1, func(c *ledger.AllocateCommand) {
			c.Actor, c.Subordinate = identity.Actor{Name: id + "@h1", Anyone: true}, true
		})
		must(t, err)
		return a.ID
	}
	first, second := of("100001"), of("100002")
	_, err := l.Confirm(start, ledger.ConfirmCommand{Actor: identity.Local(), ID: first, Process: process})
	must(t, err)
	process.Verified = true
	_, err = l.Confirm(start, ledger.ConfirmCommand{Actor: identity.Local(), ID: second, Process: process})
	must(t, err)
	if _, lives := l.Get(first); lives {
		t.Error("the false claim stays")
	}
}
