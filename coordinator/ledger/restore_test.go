package ledger_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/resource"
)

// noID is above every id that a ledger gives out.
const noID = ^ledger.ID(0)

// restored is a ledger with one host that was restored from rows.
func restored(t *testing.T, s ledger.Snapshot) *ledger.Ledger {
	t.Helper()
	s.Hosts = []ledger.HostRecord{{ID: "h1", Incarnation: 1, Capacity: resource.Vector{}.WithMemory(8)}}
	l := ledger.New(ledger.Config{}, newPlainPlacer())
	must(t, l.Restore(start, s))
	return l
}

// The lists of a snapshot and of providers may be in any order, and stay in it: they belong to the
// caller.
func TestTheCallersListsStayInTheirOrder(t *testing.T) {
	named := func(cluster string) ledger.ProviderRecord {
		return ledger.ProviderRecord{ClusterName: ledger.ClusterName{Kind: "yarn", Cluster: cluster}, Source: "file"}
	}
	rows := ledger.Snapshot{
		LastID:      9,
		Allocations: []ledger.Allocation{{ID: 7, State: ledger.Active, HostID: "h1"}, {ID: 3, State: ledger.Active, HostID: "h1"}},
		Remembered:  []ledger.Remembered{{ID: 2, RequestID: "b", Ended: start}, {ID: 1, RequestID: "a", Ended: start - 1}},
		Providers:   []ledger.ProviderRecord{named("red"), named("blue")},
	}
	l := restored(t, rows)
	if got := l.Counts(); got.Active != 2 || got.Remembered != 2 || len(l.Providers()) != 2 {
		t.Errorf("restored %+v; want all rows", got)
	}
	list := []ledger.ProviderRecord{named("yellow"), named("green")}
	must(t, l.ReplaceProviders(start, list))
	if got := l.Providers(); len(got) != 2 || got[0].Cluster != "green" {
		t.Errorf("the providers are %v; want green before yellow", got)
	}
	for what, ordered := range map[string]bool{
		"allocations":            rows.Allocations[0].ID == 7,
		"remembered request ids": rows.Remembered[0].ID == 2,
		"providers":              rows.Providers[0].Cluster == "red",
		"replacing providers":    list[0].Cluster == "yellow",
	} {
		if !ordered {
			t.Errorf("the list of %s was sorted in place", what)
		}
	}
}

// The rows were written with a clock that was ahead: past times are not after now, and no deadline
// is further away than when it was set.
func TestTimesOfRowsAreNotAfterNow(t *testing.T) {
	after := func(d time.Duration) ledger.Instant { return start.Add(d) }
	const ahead = time.Hour
	for name, test := range map[string]struct{ row, want ledger.Allocation }{
		"a request that waits for a minute": {
			ledger.Allocation{State: ledger.Waiting, Async: true, Created: after(ahead), WaitDeadline: after(ahead + time.Minute), PassedSince: after(ahead)},
			ledger.Allocation{Created: start, WaitDeadline: after(time.Minute), PassedSince: start},
		},
		"one that was made now": {
			ledger.Allocation{State: ledger.Waiting, Async: true, Created: start, WaitDeadline: after(time.Minute)},
			ledger.Allocation{Created: start, WaitDeadline: after(time.Minute)},
		},
		"one whose wait was over before it began": {
			ledger.Allocation{State: ledger.Waiting, Async: true, Created: after(ahead), WaitDeadline: after(ahead - time.Minute)},
			ledger.Allocation{Created: start, WaitDeadline: start},
		},
		"one that waits to the end of time": {
			ledger.Allocation{State: ledger.Waiting, Async: true, Created: after(1), WaitDeadline: 1<<63 - 1},
			ledger.Allocation{Created: start, WaitDeadline: ledger.MaxInstant},
		},
		"one that does not wait": {
			ledger.Allocation{State: ledger.Reserved, HostID: "h1", Created: after(ahead), Reserved: after(ahead), Expires: after(ahead + time.Minute), ReservationTTL: time.Minute},
			ledger.Allocation{Created: start, Reserved: start, Expires: after(time.Minute)},
		},
		"a reservation in time": {
			ledger.Allocation{State: ledger.Reserved, HostID: "h1", Created: start, Reserved: start, Expires: after(time.Minute), ReservationTTL: time.Hour},
			ledger.Allocation{Created: start, Reserved: start, Expires: after(time.Minute)},
		},
		"a lease": {
			ledger.Allocation{State: ledger.Active, HostID: "h1", Created: 1, Reserved: 2, Confirmed: after(ahead), Expires: after(ahead + time.Minute), ReservationTTL: time.Second, Lease: time.Minute},
			ledger.Allocation{Created: 1, Reserved: 2, Confirmed: start, Expires: after(time.Minute)},
		},
		"an engine without a lease": {
			ledger.Allocation{State: ledger.Active, HostID: "h1", Created: 1, Reserved: 2, Confirmed: 3, ReservationTTL: time.Second},
			ledger.Allocation{Created: 1, Reserved: 2, Confirmed: 3},
		},
	} {
		test.row.ID = 7
		l := restored(t, ledger.Snapshot{Allocations: []ledger.Allocation{test.row}})
		a, _ := l.Get(7)
		got := []ledger.Instant{a.Created, a.WaitDeadline, a.PassedSince, a.Reserved, a.Confirmed, a.Expires}
		w := &test.want
		if want := []ledger.Instant{w.Created, w.WaitDeadline, w.PassedSince, w.Reserved, w.Confirmed, w.Expires}; !slices.Equal(got, want) {
			t.Errorf("%s: created, waits until, passed, reserved, confirmed, expires %v; want %v", name, got, want)
		}
	}
}

// The last id is what was stored as such, unless it leaves no room for others: then it is the
// highest that a row has, of those that leave room.
func TestTheLastIDLeavesRoomForOthers(t *testing.T) {
	const room = 1 << 40
	rows := func(last ledger.ID, live, ended []ledger.ID) ledger.Snapshot {
		s := ledger.Snapshot{LastID: last}
		for _, id := range live {
			s.Allocations = append(s.Allocations, ledger.Allocation{ID: id, State: ledger.Waiting, Async: true})
		}
		for i, id := range ended {
			s.Remembered = append(s.Remembered, ledger.Remembered{Caller: "alice", RequestID: string(rune('a' + i)), ID: id, Ended: start})
		}
		return s
	}
	ahead, err := ask(ready(t), start.Add(time.Hour), "alice", 1, func(c *ledger.AllocateCommand) { c.Wait, c.Async = time.Hour, true })
	must(t, err)
	for name, test := range map[string]struct {
		stored ledger.Snapshot
		want   ledger.ID
	}{
		"as stored":                            {rows(9, []ledger.ID{5}, []ledger.ID{6}), 9},
		"the last that leaves room":            {rows(noID-room-1, nil, nil), noID - room - 1},
		"the first that leaves none":           {rows(noID-room, []ledger.ID{5, 4}, []ledger.ID{3}), 5},
		"one of a clock that was ahead":        {rows(noID, []ledger.ID{5, ahead.ID}, nil), ahead.ID},
		"the highest of what has ended":        {rows(noID, []ledger.ID{5, 4}, []ledger.ID{8, 3}), 8},
		"no row":                               {rows(noID, nil, nil), 0},
		"rows that leave none":                 {rows(noID, nil, []ledger.ID{8, noID - room}), 8},
		"a row that leaves room for just that": {rows(noID, nil, []ledger.ID{8, noID - room - 1}), noID - room - 1},
	} {
		if got := restored(t, test.stored).Changes().LastID; got != test.want {
			t.Errorf("%s: the last id is %d; want %d", name, got, test.want)
		}
		filed, err := ledger.File(ledger.Config{}, &test.stored)
		must(t, err)
		test.stored.Allocations, test.stored.Filed = nil, filed
		l := filed.Ledger(newPlainPlacer())
		must(t, l.Restore(start, test.stored))
		if got := l.Changes().LastID; got != test.want {
			t.Errorf("%s, filed: the last id is %d; want %d", name, got, test.want)
		}
	}
}

// In any order of the rows the ledger is the same: entries by id, request ids forgotten by when
// they ended.
func TestRowsMayComeInAnyOrder(t *testing.T) {
	memory := resource.NewResource(resource.Vector{}.WithMemory(1))
	ended := func(id string, ago time.Duration) ledger.Remembered {
		return ledger.Remembered{Caller: "alice", RequestID: id, ID: 1, Ended: start.Add(-ago)}
	}
	l := restored(t, ledger.Snapshot{
		Allocations: []ledger.Allocation{
			{ID: 9, State: ledger.Active, HostID: "h1", Entitled: memory},
			{ID: 7, State: ledger.Active, HostID: "h1", Entitled: memory},
			{ID: 8, State: ledger.Active, HostID: "h1", Entitled: memory},
		},
		Remembered: []ledger.Remembered{ended("c", time.Hour), ended("a", 23*time.Hour), ended("b", 2*time.Hour), ended("from a clock ahead", -5*time.Hour)},
		Providers: []ledger.ProviderRecord{
			{ClusterName: ledger.ClusterName{Kind: "yarn", Cluster: "prod"}}, {ClusterName: ledger.ClusterName{Kind: "yarn", Cluster: "dev"}},
		},
	})
	var ids []ledger.ID
	l.Allocations(0, func(a *ledger.Allocation) bool {
		ids = append(ids, a.ID)
		return true
	})
	if !slices.Equal(ids, []ledger.ID{7, 8, 9}) {
		t.Errorf("allocations %v; want 7 to 9", ids)
	}
	for _, step := range []struct {
		after time.Duration
		known []string
	}{
		{time.Hour - 1, []string{"a", "b", "c", "from a clock ahead"}},
		{time.Hour, []string{"b", "c", "from a clock ahead"}},
		{22 * time.Hour, []string{"c", "from a clock ahead"}},
		{23 * time.Hour, []string{"from a clock ahead"}},
		{24 * time.Hour, nil},
	} {
		l.Advance(start.Add(step.after))
		var known []string
		for _, id := range []string{"a", "b", "c", "from a clock ahead"} {
			if _, _, there := l.ByRequest("alice", id); there {
				known = append(known, id)
			}
		}
		if !slices.Equal(known, step.known) {
			t.Errorf("after %s the request ids %q are known; want %q", step.after, known, step.known)
		}
	}
	if providers := l.Providers(); providers[0].Cluster != "dev" || len(l.Audit()) > 0 {
		t.Errorf("providers %v, %v", providers, l.Audit())
	}
}

// A request that made the ledger panic ends with the reason, and is not decided. If it holds
// something it stays, but after a veto it does not wait again.
func TestWhatIsSetAsideIsCanceledIfItWaits(t *testing.T) {
	l := restored(t, ledger.Snapshot{
		Allocations: []ledger.Allocation{
			{ID: 7, State: ledger.Waiting, Async: true, WaitDeadline: start.Add(time.Hour)},
			{ID: 8, State: ledger.Active, HostID: "h1"},
			{ID: 9, State: ledger.Waiting, Async: true, WaitDeadline: start.Add(time.Hour)},
			{ID: 10, State: ledger.Reserved, HostID: "h1", WaitDeadline: start.Add(time.Hour), ReservationTTL: time.Hour, Expires: start.Add(time.Hour)},
		},
		SetAside: map[ledger.ID]string{6: "gone", 7: "it panicked", 8: "it holds something", 10: "it is reserved"},
	})
	if _, live := l.Get(7); live {
		t.Error("what is set aside lives on")
	}
	ended := l.Changes().Transitions
	if len(ended) != 1 || ended[0].ID != 7 || ended[0].State != ledger.Canceled || ended[0].Reason != "it panicked" {
		t.Errorf("transitions %+v; want that 7 is canceled", ended)
	}
	if c := l.Counts(); c.Active != 1 || c.Waiting != 1 || c.Reserved != 1 {
		t.Errorf("%d active, %d waiting, %d reserved; want the three others", c.Active, c.Waiting, c.Reserved)
	}
	_, err := l.Sync(start, ledger.SyncCommand{HostID: "h1", Incarnation: 1, Sequence: 1, Vetoes: []ledger.Veto{{ID: 10, Revision: l.Revision()}}})
	must(t, err)
	if a, live := l.Get(10); live {
		t.Errorf("after a veto it is %s", a.State)
	}
}

func TestProvidersThatCannotHoldAreNotRestored(t *testing.T) {
	l := ledger.New(ledger.Config{}, newPlainPlacer())
	err := l.Restore(start, ledger.Snapshot{Providers: []ledger.ProviderRecord{{ClusterName: ledger.ClusterName{Kind: "yarn"}}}})
	if wrong, ok := errors.AsType[*ledger.FieldError](err); !ok || wrong.Field != "provider.cluster" {
		t.Errorf("%v; want the field refused", err)
	}
}

// The writer keeps the ledger's time as long as something ends when its time has come.
func TestWaitsAndReservationsArePending(t *testing.T) {
	for name, test := range map[string]struct {
		rows    []ledger.Allocation
		pending bool
	}{
		"nothing":       {nil, false},
		"an engine":     {[]ledger.Allocation{{ID: 7, State: ledger.Active, HostID: "h1"}}, false},
		"a reservation": {[]ledger.Allocation{{ID: 7, State: ledger.Reserved, HostID: "h1"}}, true},
		"a request":     {[]ledger.Allocation{{ID: 7, State: ledger.Waiting, Async: true}}, true},
		"both":          {[]ledger.Allocation{{ID: 7, State: ledger.Waiting, Async: true}, {ID: 8, State: ledger.Reserved, HostID: "h1"}}, true},
	} {
		if got := restored(t, ledger.Snapshot{Allocations: test.rows}).Pending(); got != test.pending {
			t.Errorf("%s: pending %t; want %t", name, got, test.pending)
		}
	}
}

// The next thing to do is the earlier one of what a timer was set for and of a request id that is
// to be forgotten.
func TestWhatIsDueNextIsTheEarlierOfTimersAndRequestIDs(t *testing.T) {
	const day = 24 * time.Hour // a request id is remembered for
	for name, test := range map[string]struct {
		remembered bool
		goodFor    time.Duration // of what was read of a cluster; zero: it is forgotten at once
		want       time.Duration // zero: nothing is due
	}{
		"nothing":           {false, 0, 0},
		"a timer":           {false, time.Hour, time.Hour},
		"a request id":      {true, 0, day},
		"a timer is first":  {true, time.Hour, time.Hour},
		"a timer is second": {true, 2 * day, day},
	} {
		s := ledger.Snapshot{Providers: []ledger.ProviderRecord{{ClusterName: yarnProd}}}
		if test.remembered {
			s.Remembered = []ledger.Remembered{{Caller: "alice", RequestID: "r1", ID: 1, Ended: start}}
		}
		l := ledger.New(ledger.Config{}, newPlainPlacer())
		must(t, l.Restore(start, s))
		must(t, l.ReportCluster(start, ledger.ClusterReport{ClusterName: yarnProd, Asked: start, GoodFor: test.goodFor}))
		if at, due := l.NextTimer(); due != (test.want != 0) || due && at != start.Add(test.want) {
			t.Errorf("%s: due %s after the start, %t; want %s", name, at.Sub(start), due, test.want)
		}
	}
}

// Until the known hosts had the time to report, it is too early to refuse a request that no host is
// large enough for. If no host is known, there is no such time. Never is neither said then nor
// later: a larger host may come.
func TestAfterALoadKnownHostsAreWaitedFor(t *testing.T) {
	for hosts, early := range []bool{false, true, true} {
		s := ledger.Snapshot{Quotas: []ledger.Quota{{Selector: selector(t, "user=bob"), Source: ledger.SourceAPI}}}
		for i := range hosts {
			s.Hosts = append(s.Hosts, ledger.HostRecord{ID: string(rune('a' + i)), Incarnation: 1, Capacity: resource.Vector{}.WithMemory(1)})
		}
		l := ledger.New(ledger.Config{}, newPlainPlacer())
		turn := l.RulesGeneration()
		must(t, l.Restore(start, s))
		_, err := ask(l, start, "alice", 8)
		refusal, refused := errors.AsType[*ledger.InsufficientError](err)
		if !refused || refusal.Returning != early || refusal.Never {
			t.Errorf("%d hosts: %v; want it too early to say: %t", hosts, err, early)
		}
		if l.RulesGeneration() == turn {
			t.Error("the rules that were loaded pass for those before")
		}
	}
}
