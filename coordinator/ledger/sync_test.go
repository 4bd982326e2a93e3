package ledger_test

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/internal/identity"
	"github.com/bursar/bursar/label"
	"github.com/bursar/bursar/resource"
)

// ready is a ledger with one host that has 1 TiB of memory and has reported.
func ready(t *testing.T) *ledger.Ledger {
	t.Helper()
	return readyWith(t, ledger.Config{})
}

func readyWith(t *testing.T, config ledger.Config) *ledger.Ledger {
	t.Helper()
	l := ledger.New(config, newPlainPlacer())
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

// A ledger lists what ended between two reports, up to a bound. An agent that has missed more gets
// the list of all live allocations instead.
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
		if len(answer.Gone) > 256 || answer.Complete != (ends > 256) {
			t.Errorf("after %d ends the answer names %d, and is complete: %t", ends, len(answer.Gone), answer.Complete)
		}
	}
}

// However much an agent knows of what ended on its host, the next answer has the rest, or all that
// lives.
func TestAnAgentIsToldOfAllEndsSinceItsLastAnswer(t *testing.T) {
	const kept = 256 // by name
	const ends = 3 * kept
	l := ready(t)
	stays := reserve(t, l, "alice")
	var gone []ledger.ID
	for range ends {
		gone = append(gone, reserve(t, l, "bob").ID)
	}
	seen := []uint64{l.Revision()} // by an agent that heard of so many ends
	for _, id := range gone {
		_, err := l.Release(start, ledger.ReleaseCommand{Actor: identity.Local(), ID: id})
		must(t, err)
		seen = append(seen, l.Revision())
	}
	for heard, revision := range seen {
		answer, err := l.Sync(start, ledger.SyncCommand{HostID: "h1", Incarnation: 1, Sequence: uint64(heard) + 2, Seen: revision})
		must(t, err)
		if answer.Complete {
			if heard >= ends-kept || len(answer.Grants) != 1 || answer.Grants[0].ID != stays.ID {
				t.Fatalf("to one that heard of %d ends it says that these are all: %v", heard, answer.Grants)
			}
			continue
		}
		if heard < ends-kept {
			t.Fatalf("one that heard of %d of %d ends gets single ones", heard, ends)
		}
		for _, id := range gone[heard:] {
			if !slices.Contains(answer.Gone, id) {
				t.Fatalf("one that heard of %d of %d ends gets %d: not %s", heard, ends, len(answer.Gone), id)
			}
		}
	}
}

// Ids that agents report are not the ledger's own: whatever they are, the ones it gives out rise
// with the time.
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

// Engines that say they are larger together than all on one host can be are not counted, and
// nothing else is lost for them.
func TestAnEngineThatCannotBeCountedLeavesTheBooksAlone(t *testing.T) {
	l := ready(t)
	must(t, l.PutQuota(start, ledger.Quota{Selector: selector(t, "user=*"), Limit: resource.Vector{}.WithMemory(8)}))
	reserve(t, l, "alice")
	var engines []ledger.EngineReport
	for id := range ledger.ID(2000) {
		engines = append(engines, ledger.EngineReport{ID: id + 1, Grant: &ledger.Allocation{
			Process: ledger.Process{PID: 1}, Labels: label.Of("user", fmt.Sprint(id)), Entitled: resource.NewResource(resource.Vector{}.WithMemory(1 << 43)),
		}})
	}
	for id := range ledger.ID(2000) { // those are too many for a queue
		engines = append(engines, ledger.EngineReport{ID: id + 3000, Grant: &ledger.Allocation{
			Process: ledger.Process{PID: 1}, Labels: label.Of("user", fmt.Sprint(id+3000)), Entitled: resource.NewResource(resource.Vector{}, resource.External{
				Address: resource.Address{Kind: "yarn", Cluster: "prod", Path: "root"}, Vector: resource.Vector{}.WithMemory(1 << 43),
			}),
		}})
	}
	_, err := l.Sync(start, ledger.SyncCommand{HostID: "h1", Incarnation: 1, Sequence: 2, Full: true, Engines: engines})
	must(t, err)
	if v := l.Audit(); len(v) > 0 {
		t.Error(v)
	}
	if c := l.Counts(); c.Reserved != 1 || c.Active < 100 || c.Active >= 2000 {
		t.Errorf("%d are reserved, %d active; want 1, and as many as can be added up", c.Reserved, c.Active)
	} else if c.QuotaAccounts != c.Reserved+c.Active {
		t.Errorf("%d users have something, and %d accounts are there", c.Reserved+c.Active, c.QuotaAccounts)
	}
}

// The more hosts there are the less often each reports, so that all together stay below a rate;
// and the longer one may be silent before it is suspect: 30 s for 10,000 hosts.
func TestTheIntervalGrowsWithTheHosts(t *testing.T) {
	l := ledger.New(ledger.Config{}, newPlainPlacer())
	interval := time.Duration(0)
	available := int64(8)
	for i := range 10_000 {
		id := fmt.Sprintf("h%05d", i)
		got, err := l.Register(start, ledger.RegisterCommand{HostID: id, Incarnation: 1, Capacity: resource.Vector{}.WithMemory(8)})
		must(t, err)
		if want := max(5*time.Second, time.Duration(i+1)*time.Second/1000); got != want {
			t.Fatalf("%d hosts report every %s; want %s", i+1, got, want)
		}
		interval = got
		_, err = l.Sync(start, ledger.SyncCommand{HostID: id, Incarnation: 1, Sequence: 1, Full: true, Sample: &ledger.Sample{MemoryAvailable: &available}})
		must(t, err)
	}
	l.Advance(start.Add(3*interval - 1))
	if c := l.Counts(); c.HostsHealthy != 10_000 {
		t.Errorf("after just less than three intervals %d are healthy; want all", c.HostsHealthy)
	}
	l.Advance(start.Add(3 * interval))
	if c := l.Counts(); c.HostsSuspect != 10_000 {
		t.Errorf("after three intervals %d are suspect; want all", c.HostsSuspect)
	}
}

// A grant that its host's agent takes back leaves nothing in the row of the request, which waits
// again.
func TestNothingIsLeftOfAGrantThatWasVetoed(t *testing.T) {
	l := ready(t)
	granted, err := ask(l, start, "alice", 1, func(c *ledger.AllocateCommand) { c.Wait, c.Async = time.Hour, true })
	must(t, err)
	_, err = l.Sync(start, ledger.SyncCommand{
		HostID: "h1", Incarnation: 1, Sequence: 2, Seen: l.Revision(), Vetoes: []ledger.Veto{{ID: granted.ID, Revision: granted.Revision}},
	})
	must(t, err)
	waits, _ := l.Get(granted.ID)
	if granted.State != ledger.Reserved || granted.Expires == 0 || waits.State != ledger.Waiting || waits.Expires != 0 || waits.HostID != "" || waits.HostAddress != "" {
		t.Errorf("it was %+v, and is %+v", granted, waits)
	}
}

// A reservation whose engine runs by its agent's report, before it was confirmed, is active with
// what the report says.
func TestAReservationIsActiveAsItsAgentReportsIt(t *testing.T) {
	bytes := func(n int64) resource.Resource { return resource.NewResource(resource.Vector{}.WithMemory(n)) }
	for _, test := range []struct{ reported, want int64 }{{3, 3}, {5, 5}, {6, 5}, {-1, 5}} {
		l := ready(t)
		reserved, err := ask(l, start, "alice", 5)
		must(t, err)
		grant := reserved
		grant.Process.PID, grant.Entitled = 100, bytes(test.reported)
		over := ledger.OverUse{Dimension: resource.Memory, Used: 9, Entitled: test.want, Since: start, Policy: ledger.PolicyWarn}
		_, err = l.Sync(start, ledger.SyncCommand{
			HostID: "h1", Incarnation: 1, Sequence: 2, Full: true, Seen: l.Revision(),
			Engines: []ledger.EngineReport{{ID: grant.ID, Grant: &grant, OverUse: []ledger.OverUse{over}}},
		})
		must(t, err)
		a, _ := l.Get(reserved.ID)
		if a.State != ledger.Active || a.Entitled.Memory() != test.want || !slices.Equal(a.OverUse, []ledger.OverUse{over}) {
			t.Errorf("reported with %d, it is %s with %s and over-use %v; want active with %d", test.reported, a.State, a.Entitled, a.OverUse, test.want)
		}
	}
}

// An agent that has seen everything but has another digest is asked for all it has.
func TestAnAgentThatHasHeardOfAllAndCountsOtherwiseIsAskedForAll(t *testing.T) {
	l := ready(t)
	_, err := l.Release(start, ledger.ReleaseCommand{Actor: identity.Local(), ID: reserve(t, l, "alice").ID})
	must(t, err)
	answer, err := l.Sync(start, ledger.SyncCommand{HostID: "h1", Incarnation: 1, Sequence: 2, Seen: l.Revision(), Digest: 7})
	must(t, err)
	if answer.Action != ledger.ActionResync {
		t.Errorf("it is asked for %d; want everything", answer.Action)
	}
}

// Of an agent's record of an unknown engine the ledger uses what is about the engine. It does not
// use what only the ledger can know, or what no row may hold.
func TestAnEngineIsAdoptedAsItsAgentDescribesIt(t *testing.T) {
	bytes := func(n int64) resource.Resource { return resource.NewResource(resource.Vector{}.WithMemory(n)) }
	now, later := start.Add(time.Minute), start.Add(time.Hour)
	plain := ledger.EngineReport{
		ID: 7, Measured: resource.Vector{}.WithMemory(3), Unreclaimable: 2,
		Grant: &ledger.Allocation{Process: ledger.Process{PID: 1}, Requested: bytes(4), Entitled: bytes(4), Created: start, Reserved: start, Confirmed: start},
	}
	for name, test := range map[string]struct {
		change func(r *ledger.EngineReport)
		want   func(a *ledger.Allocation)
		sample bool
	}{
		"as it is":                           {},
		"with a sample of its host's memory": {sample: true, want: func(a *ledger.Allocation) { a.Unreclaimable = 2 }},
		"with what only the ledger knows": {change: func(r *ledger.EngineReport) {
			g := r.Grant
			g.ID, g.State, g.HostID, g.HostAddress, g.Measured, g.Unreclaimable = 8, ledger.Waiting, "h2", "h2:1", bytes(9).Vector, 9
			g.Ended, g.Expires, g.Exit, g.Forget, g.RequestHash, g.ReservationTTL = start, start, &ledger.ExitStatus{}, true, 7, time.Hour
			g.OverUse, g.Wishes, g.GrantRevision = []ledger.OverUse{{Dimension: resource.Memory, Policy: ledger.PolicyWarn}}, &ledger.Wishes{Host: "h2"}, 99
			g.OverLimit, g.Revision, g.Reason, g.StopGrace, g.StopReason = true, 99, "because", time.Hour, "enough"
		}, want: func(a *ledger.Allocation) { a.StopGrace, a.StopReason = time.Hour, "enough" }},
		"with times that are to come": {change: func(r *ledger.EngineReport) {
			r.Grant.Created, r.Grant.Reserved, r.Grant.Confirmed = now+1, later, later
		}, want: func(a *ledger.Allocation) { a.Created, a.Reserved, a.Confirmed = now, now, now }},
		"without times": {change: func(r *ledger.EngineReport) {
			r.Grant.Created, r.Grant.Reserved, r.Grant.Confirmed = 0, 0, 0
		}, want: func(a *ledger.Allocation) { a.Created, a.Reserved, a.Confirmed = now, 0, now }},
		"with names that are no text": {change: func(r *ledger.EngineReport) {
			g := r.Grant
			g.Caller, g.RequestID, g.Address, g.StopReason, g.Process.Cgroup, g.ApplicationIDs = "c\xff", "r\xff", "a\xff", "s\xff", "g\xff", []string{"i\xff"}
		}, want: func(a *ledger.Allocation) {
			a.Caller, a.RequestID, a.Address, a.StopReason, a.Process.Cgroup, a.ApplicationIDs = "c\ufffd", "r\ufffd", "a\ufffd", "s\ufffd", "g\ufffd", []string{"i\ufffd"}
		}},
		"to be stopped": {change: func(r *ledger.EngineReport) { r.Grant.Stopping, r.Grant.StopGrace = true, time.Hour }, want: func(a *ledger.Allocation) {
			a.Stopping, a.StopGrace, a.StopReason = true, 10*time.Second, "its agent was asked to stop it"
		}},
		"to be stopped for a reason": {change: func(r *ledger.EngineReport) { r.Grant.Stopping, r.Grant.StopReason = true, "enough" }, want: func(a *ledger.Allocation) {
			a.Stopping, a.StopGrace, a.StopReason = true, 10*time.Second, "enough"
		}},
		"with a request that is wrong": {change: func(r *ledger.EngineReport) { r.Grant.Requested = bytes(-1) }, want: func(a *ledger.Allocation) {
			a.Requested = resource.Resource{}
		}},
		"with an entitlement that is wrong": {change: func(r *ledger.EngineReport) { r.Grant.Entitled = bytes(-1) }, want: func(a *ledger.Allocation) { a.Entitled = bytes(3) }},
		"with figures that are all wrong": {change: func(r *ledger.EngineReport) { r.Grant.Entitled, r.Measured = bytes(-1), bytes(-1).Vector }, want: func(a *ledger.Allocation) {
			a.Entitled, a.Measured = resource.Resource{}, bytes(-1).Vector
		}},
		"entitled to nothing": {change: func(r *ledger.EngineReport) { r.Grant.Entitled = bytes(0) }, want: func(a *ledger.Allocation) { a.Entitled = bytes(0) }},
		"without its entitlement": {change: func(r *ledger.EngineReport) { r.Grant.Entitled, r.Without = bytes(0), "its entitlement" }, want: func(a *ledger.Allocation) {
			a.Entitled = bytes(3)
			a.Reason += ", without what was damaged or too large there: its entitlement"
		}},
		"in over-use": {change: func(r *ledger.EngineReport) {
			r.Grant.OverUse = []ledger.OverUse{{Dimension: resource.Memory, Used: 5, Entitled: 4, Since: start, Policy: ledger.PolicyWarn}}
			r.OverUse = []ledger.OverUse{{Dimension: resource.Memory, Used: 6, Entitled: 4, Since: start, Policy: ledger.PolicyWarn}}
		}, want: func(a *ledger.Allocation) {
			a.OverUse = []ledger.OverUse{{Dimension: resource.Memory, Used: 6, Entitled: 4, Since: start, Policy: ledger.PolicyWarn}}
		}},
		"without its labels": {change: func(r *ledger.EngineReport) { r.Without = "its labels" }, want: func(a *ledger.Allocation) {
			a.Reason += ", without what was damaged or too large there: its labels"
		}},
	} {
		l, report, grant := ready(t), plain, *plain.Grant
		report.Grant = &grant
		if test.change != nil {
			test.change(&report)
		}
		c := ledger.SyncCommand{HostID: "h1", Incarnation: 1, Sequence: 2, Full: true, Engines: []ledger.EngineReport{report}}
		if test.sample {
			available := int64(1 << 40)
			c.Sample = &ledger.Sample{MemoryAvailable: &available, Time: now}
		}
		before := l.Revision()
		_, err := l.Sync(now, c)
		must(t, err)
		want := *plain.Grant
		want.ID, want.State, want.HostID, want.Measured, want.Reason = 7, ledger.Active, "h1", plain.Measured, "adopted from its agent's report"
		if report.Measured.Validate() == nil {
			want.Peak = ledger.NewPeak(report.Measured, ledger.PeakUnknown)
		}
		want.GrantRevision, want.Revision = before+1, before+1
		if test.want != nil {
			test.want(&want)
		}
		got, _ := l.Get(7)
		if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" || !got.Adopted() {
			t.Errorf("%s, adopted: %t (-want +got):\n%s", name, got.Adopted(), diff)
		}
	}
}

// An agent that has seen more than there was is from another ledger: it gets all that lives, is
// asked for all it has, and its host gets no grants before it has answered.
func TestAnAgentThatHasHeardOfMoreThanThereWasIsAskedForAll(t *testing.T) {
	l := ready(t)
	reserve(t, l, "alice")
	for sequence, test := range []struct {
		more     uint64
		complete bool
	}{{0, false}, {1, true}} {
		answer, err := l.Sync(start, ledger.SyncCommand{HostID: "h1", Incarnation: 1, Sequence: uint64(sequence + 2), Seen: l.Revision() + test.more})
		must(t, err)
		h, _ := l.Host("h1")
		if answer.Complete != test.complete || (answer.Action == ledger.ActionResync) != test.complete || (h.Unavailable != "") != test.complete {
			t.Errorf("by %d more: complete is %t, the action %d, and the host is closed because %q", test.more, answer.Complete, answer.Action, h.Unavailable)
		}
	}
}

// Only a new report of the host's own agent shows that the host lives. Its sequence counts.
func TestAHostIsHeardThroughItsOwnAgentOnly(t *testing.T) {
	for name, test := range map[string]struct {
		change func(c *ledger.SyncCommand)
		heard  bool
	}{
		"its agent":             {func(*ledger.SyncCommand) {}, true},
		"another host's":        {func(c *ledger.SyncCommand) { c.HostID = "h2" }, false},
		"one of before":         {func(c *ledger.SyncCommand) { c.Incarnation = 0 }, false},
		"one that is to come":   {func(c *ledger.SyncCommand) { c.Incarnation = 2 }, false},
		"one of another boot":   {func(c *ledger.SyncCommand) { c.BootID = "other" }, false},
		"a report that is late": {func(c *ledger.SyncCommand) { c.Sequence = 1 }, false},
	} {
		l := ready(t)
		c := ledger.SyncCommand{HostID: "h1", Incarnation: 1, Sequence: 2}
		test.change(&c)
		l.Heard(start.Add(time.Second), c)
		if h, _ := l.Host("h1"); (h.LastSync == start.Add(time.Second)) != test.heard {
			t.Errorf("%s: heard at %s after the start; want it heard: %t", name, h.LastSync.Sub(start), test.heard)
		}
		_, err := l.Sync(start.Add(time.Second), ledger.SyncCommand{HostID: "h1", Incarnation: 1, Sequence: 2})
		if as[*ledger.StaleError](err) != test.heard {
			t.Errorf("%s: its report is then taken in with %v; want it refused as heard before: %t", name, err, test.heard)
		}
	}
}

// What became lost here but still runs holds something from when it is known again: in between,
// others may have had it.
func TestWhatHadEndedHoldsSomethingFromItsAdoption(t *testing.T) {
	l := ready(t)
	later := start.Add(time.Minute)
	granted, err := ask(l, start, "alice", 1, func(c *ledger.AllocateCommand) { c.RequestID = "r1" })
	must(t, err)
	_, err = l.Release(start, ledger.ReleaseCommand{Actor: identity.Local(), ID: granted.ID})
	must(t, err)
	granted.Process.PID = 100
	_, err = l.Sync(later, ledger.SyncCommand{
		HostID: "h1", Incarnation: 1, Sequence: 2, Full: true, Engines: []ledger.EngineReport{{ID: granted.ID, Grant: &granted}},
	})
	must(t, err)
	if a, _ := l.Get(granted.ID); a.State != ledger.Active || a.Created != start || a.Reserved != later || !a.BroughtBack() {
		t.Errorf("it is %s, created at %d, and holds something since %d; want since %d", a.State, a.Created, a.Reserved, later)
	}
}
