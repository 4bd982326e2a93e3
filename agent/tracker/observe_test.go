package tracker_test

import (
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/bursar/bursar/agent/tracker"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

func TestObserve(t *testing.T) {
	for name, test := range map[string]struct {
		told    *bursarv1.Allocation
		asOf    uint64
		verdict tracker.Verdict
		held    []string
	}{
		"a grant":                        {grant("new", reserved, 11, 100), 5, tracker.Held, []string{"a", "new"}},
		"an engine":                      {engine("new", 11, 100, 50), 5, tracker.Held, []string{"a", "new"}},
		"the same again":                 {engine("a", 3, 100, 42), 5, tracker.Held, []string{"a"}},
		"its own past":                   {grant("a", reserved, 2, 100), 5, tracker.Held, []string{"a"}},
		"a grant from before the answer": {grant("new", reserved, 9, 100), 5, tracker.Passed, []string{"a"}},
		"a grant that the answer had":    {grant("new", reserved, 10, 100), 5, tracker.Passed, []string{"a"}},
		"a grant of the leader before":   {grant("new", reserved, 11, 100), 4, tracker.Held, []string{"a", "new"}},
		"one from before the answer":     {grant("new", reserved, 9, 100), 4, tracker.Passed, []string{"a"}},
		"a request that waits":           {grant("new", waiting, 11, 100), 5, tracker.Passed, []string{"a"}},
		"a release":                      {grant("a", released, 11, 100), 5, tracker.Passed, []string{}},
		"a release by the leader before": {grant("a", released, 1, 100), 4, tracker.Passed, []string{}},
		"its reservation, with news":     {grant("a", reserved, 12, 100), 5, tracker.Held, []string{"a"}},
		"a wait from before the grant":   {grant("a", waiting, 2, 100), 5, tracker.Passed, []string{"a"}},
		"nothing":                        {nil, 5, tracker.Passed, []string{"a"}},
		"another host's":                 {&bursarv1.Allocation{Id: "x", HostId: "h2", State: reserved, Revision: 11}, 5, tracker.Passed, []string{"a"}},
	} {
		t.Run(name, func(t *testing.T) {
			k := registered(t, engine("a", 3, 100, 42))
			for range 2 {
				if got := k.Observe(start, test.told, test.asOf); got != test.verdict {
					t.Errorf("verdict %d, want %d", got, test.verdict)
				}
			}
			same(t, "held", test.held, held(k))
		})
	}
}

// A store was restored to a time when the engine was a reservation or a request. Its cancellation,
// its expiry or its wait do not concern the running engine. Otherwise the engine would be
// forgotten.
func TestAnEngineThatRunsOutlivesItsReservationOfAnotherPast(t *testing.T) {
	for _, state := range []bursarv1.AllocationState{
		bursarv1.AllocationState_ALLOCATION_STATE_CANCELED, bursarv1.AllocationState_ALLOCATION_STATE_EXPIRED,
		bursarv1.AllocationState_ALLOCATION_STATE_WAITING, bursarv1.AllocationState_ALLOCATION_STATE_LOST,
	} {
		t.Run(state.String(), func(t *testing.T) {
			k := registered(t, engine("a", 9, 100, 42))
			answer(t, k, k.BuildSync(start), &bursarv1.SyncResponse{Epoch: 6, Action: resync})
			register(t, k, 6)
			reported := k.BuildSync(start) // which the ledger has not taken in yet
			if got := k.Observe(start, grant("a", state, 4, 100), 6); got != tracker.Passed {
				t.Errorf("verdict %d", got)
			}
			same(t, "held", []string{"a"}, held(k))
			answer(t, k, reported, &bursarv1.SyncResponse{
				Epoch: 6, LedgerSequence: 5, Complete: true, Grants: []*bursarv1.Allocation{engine("a", 5, 100, 42)},
			})
			same(t, "held after its report", []string{"a"}, held(k))
			k.Observe(start, grant("a", released, 6, 100), 6)
			same(t, "held when it was released", []string{}, held(k))
		})
	}
}

// An answer that contradicts the running engines makes the agent report them in full, so that the
// ledger adopts them.
func TestAnEngineThatTheLedgerGaveUpIsReported(t *testing.T) {
	k := registered(t, engine("a", 9, 100, 42))
	if k.Urgent() {
		t.Fatal("urgent before anything was said")
	}
	k.Observe(start, grant("a", bursarv1.AllocationState_ALLOCATION_STATE_CANCELED, 12, 100), 5)
	if q := k.BuildSync(start); !q.GetFull() || len(q.GetEngines()) != 1 || q.GetEngines()[0].GetGrant() == nil {
		t.Errorf("want a report of the engine in full: %v", q)
	}
}

func TestReleaseIsNotUndoneByAnAnswerFromBefore(t *testing.T) {
	k := registered(t, engine("a", 3, 100, 42))
	q := k.BuildSync(start)
	k.Observe(start, grant("a", released, 12, 100), 5)
	answer(t, k, q, &bursarv1.SyncResponse{Epoch: 5, LedgerSequence: 11, Grants: []*bursarv1.Allocation{engine("a", 11, 90, 42)}})
	same(t, "held", []string{}, held(k))
	answer(t, k, k.BuildSync(start), &bursarv1.SyncResponse{Epoch: 5, LedgerSequence: 13, Gone: []string{"a"}})
	k.Observe(start, engine("a", 11, 90, 42), 5) // the answer to a Confirm, very late
	same(t, "held", []string{}, held(k))
	if k.Knows("a") {
		t.Error("an allocation that ended long ago is still remembered")
	}
}

// The agent sends a call; another leader follows, and its grant comes with a Sync and is refused;
// then the answer to the call arrives.
func TestAVetoOutlivesAnAnswerToACallOfTheLeadershipBefore(t *testing.T) {
	k := registered(t)
	k.Measure(start, tracker.Measurement{Sample: free(150)})
	told := grant("a", reserved, 11, 100)
	out := answer(t, k, k.BuildSync(start), &bursarv1.SyncResponse{Epoch: 5, LedgerSequence: 11, Grants: []*bursarv1.Allocation{told}})
	if len(out.Vetoed) != 1 {
		t.Fatalf("not refused: %+v", out)
	}
	// it waits again
	answer(t, k, k.BuildSync(start), &bursarv1.SyncResponse{Epoch: 5, LedgerSequence: 12})
	k.Measure(start, tracker.Measurement{Sample: free(1000)})
	if got := k.Observe(start, told, 4); got != tracker.Passed {
		t.Errorf("verdict %d: what was given back is held", got)
	}
	same(t, "held", []string{}, held(k))
}

func TestReleaseOfWhatTheCoordinatorDoesNotKnow(t *testing.T) {
	k := registered(t, engine("a", 3, 100, 42))
	k.Released("a")
	k.Released("unknown")
	same(t, "held", []string{}, held(k))
	same(t, "engines", []tracker.Engine(nil), k.Engines())
}

func TestConfirmOfANewLeaderIsTakenAlthoughItsEpochIsNotKnownYet(t *testing.T) {
	k := registered(t, grant("a", reserved, 3, 100))
	answer(t, k, k.BuildSync(start), &bursarv1.SyncResponse{Epoch: 6, Action: resync})
	register(t, k, 6)
	answer(t, k, k.BuildSync(start), &bursarv1.SyncResponse{Epoch: 6, LedgerSequence: 10, Complete: true, Grants: []*bursarv1.Allocation{grant("a", reserved, 3, 100)}})
	k.Observe(start, engine("a", 12, 100, 42), 5) // sent before anybody knew of epoch 6
	same(t, "engines", 1, len(k.Engines()))
}

func TestProcessThatWasCompletedStaysComplete(t *testing.T) {
	told := engine("a", 3, 100, 42)
	told.Process = &bursarv1.Process{Pid: 42}
	k := registered(t, told)
	k.SetProcess("a", &bursarv1.Process{Pid: 42, StartTime: 7, BootId: "boot-1"})
	k.SetProcess("a", &bursarv1.Process{Pid: 43, StartTime: 8}) // somebody else's
	resized := proto.CloneOf(told)
	resized.Revision, resized.Entitled.MemoryBytes = 12, new(50*mib)
	k.Observe(start, resized, 5)
	a, _ := k.Get("a")
	same(t, "grant", engine("a", 12, 50, 42), a)
	if id, ok := k.EngineOf(42, 7); !ok || id != "a" {
		t.Errorf("the engine of process 42: %q, %v", id, ok)
	}
}

func TestSnapshotHasEnginesAndTombstonesOnly(t *testing.T) {
	k := registered(t, engine("a", 3, 100, 42), grant("b", reserved, 4, 100), engine("c", 5, 100, 43), grant("lease", active, 6, 10))
	k.Measure(start, tracker.Measurement{Sample: free(900), Usages: []tracker.Usage{{ID: "c", PID: 43, StartTime: 7, Ended: true}}})
	if !k.Unsaved() {
		t.Fatal("nothing to save after an engine ended")
	}
	s := k.Snapshot()
	if k.Unsaved() {
		t.Error("unsaved right after a snapshot")
	}
	same(t, "engines", []*bursarv1.Allocation{engine("a", 3, 100, 42)}, s.Engines)
	if len(s.Ended) != 1 || s.Ended[0].GetAllocationId() != "c" || s.Ended[0].GetReason() != "process ended" || s.Epoch != 5 || s.StoreID != "store-1" {
		t.Errorf("snapshot: %+v", s)
	}
	k.NotSaved()
	if !k.Unsaved() {
		t.Error("saved although that failed")
	}

	same(t, "restored", []string{"a"}, held(tracker.New(start, host(2), s)))
	again := tracker.New(start, host(2), s)
	same(t, "tombstones", 1, len(again.BuildSync(start).GetEnded()))
}

func TestAnotherBootEndsEveryEngine(t *testing.T) {
	s := registered(t, engine("a", 3, 100, 42)).Snapshot()
	rebooted := host(2)
	rebooted.BootID = "boot-2"
	k := tracker.New(start, rebooted, s)
	same(t, "held", []string{}, held(k))
	q := k.BuildSync(start)
	if len(q.GetEnded()) != 1 || q.GetEnded()[0].GetReason() != "host rebooted" {
		t.Errorf("sync after a reboot: %v", q)
	}
	register(t, k, 5)
	answer(t, k, k.BuildSync(start), &bursarv1.SyncResponse{
		Epoch: 5, LedgerSequence: 10, Complete: true, Acknowledged: []string{"a"},
		// confirmed before the state was saved
		Grants: []*bursarv1.Allocation{engine("b", 5, 100, 44)},
	})
	if q := k.BuildSync(start); len(q.GetEnded()) != 1 || q.GetEnded()[0].GetAllocationId() != "b" {
		t.Errorf("an engine of the boot before, told by the coordinator: %v", q)
	}
}

// A Snapshot omits an engine that only the coordinator has named, until its process is shown.
func TestEngineThatIsShownLaterIsToBeSaved(t *testing.T) {
	a := engine("a", 3, 400, 42)
	k := registered(t, a)
	k.Show("a", nil)
	if !k.Unsaved() || len(k.Snapshot().Engines) != 0 {
		t.Error("saved without being shown")
	}
	k.Show("a", nil)
	if k.Unsaved() {
		t.Error("nothing has changed")
	}
	k.Show("a", a.GetProcess())
	if !k.Unsaved() || len(k.Snapshot().Engines) != 1 {
		t.Error("not saved")
	}
	k.Show("a", proto.CloneOf(a.GetProcess()))
	if k.Unsaved() {
		t.Error("nothing has changed again")
	}
}
