package tracker_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"

	"github.com/bursar/bursar/agent/tracker"
	"github.com/bursar/bursar/internal/discovery"
)

func TestFirstSyncReportsEverythingAndTakesOverWhatTheLedgerHas(t *testing.T) {
	k := tracker.New(start, host(1), tracker.Snapshot{})
	if !k.NeedsRegister() {
		t.Fatal("a new tracker has registered")
	}
	register(t, k, 5)
	q := k.BuildSync(start)
	if !q.GetFull() || q.GetLedgerSequence() != 0 || q.GetEpoch() != 5 || q.GetSequence() != 1 {
		t.Errorf("first sync: %v", q)
	}
	outcome := answer(t, k, q, &bursarv1.SyncResponse{
		Epoch: 5, LedgerSequence: 10, Complete: true,
		Grants: []*bursarv1.Allocation{grant("a", reserved, 3, 100), engine("b", 4, 100, 42)},
	})
	same(t, "held", []string{"a", "b"}, held(k))
	same(t, "adopted", []*bursarv1.Allocation{engine("b", 4, 100, 42)}, outcome.Adopted)
	same(t, "to measure", []tracker.Engine{{ID: "b", Process: engine("b", 4, 100, 42).Process}}, k.Engines())
	if q := k.BuildSync(start); q.GetFull() || q.GetLedgerSequence() != 10 || q.GetDigest() == 0 {
		t.Errorf("second sync: %v", q)
	}
}

func TestAnswersOfOlderEpochsAreRefused(t *testing.T) {
	k := registered(t, grant("a", reserved, 3, 100))
	_, err := k.Answer(start, k.BuildSync(start), &bursarv1.SyncResponse{Epoch: 4, LedgerSequence: 99, Gone: []string{"a"}, Complete: true})
	var stale *tracker.EpochError
	if !errors.As(err, &stale) || stale.Got != 4 || stale.Have != 5 {
		t.Errorf("answer of epoch 4 after 5: %v", err)
	}
	if err := k.Registered(&bursarv1.RegisterResponse{Epoch: 4}); !errors.As(err, &stale) {
		t.Errorf("registration with epoch 4 after 5: %v", err)
	}
	same(t, "held", []string{"a"}, held(k))
}

// After one forged answer, the answers of coordinators would be refused forever.
func TestAnEpochOutOfReachIsRefused(t *testing.T) {
	k := registered(t)
	var far *tracker.EpochError
	for _, epoch := range []uint64{5 + discovery.EpochStride + 1, 1<<48 - 1, 1<<64 - 1} {
		if _, err := k.Answer(start, k.BuildSync(start), &bursarv1.SyncResponse{Epoch: epoch}); !errors.As(err, &far) || far.Got != epoch {
			t.Errorf("answer of epoch %d after 5: %v", epoch, err)
		}
		if err := k.Registered(&bursarv1.RegisterResponse{Epoch: epoch}); !errors.As(err, &far) || !strings.Contains(err.Error(), "--forget-epoch") {
			t.Errorf("registration with epoch %d after 5: %v", epoch, err)
		}
	}
	if err := k.Registered(&bursarv1.RegisterResponse{Epoch: 5 + discovery.EpochStride}); err != nil || k.Epoch() != 5+discovery.EpochStride {
		t.Errorf("one stride: %v, %d", err, k.Epoch())
	}
	fresh := tracker.New(start, host(1), tracker.Snapshot{})
	if err := fresh.Registered(&bursarv1.RegisterResponse{Epoch: 1 << 40}); err != nil {
		t.Errorf("of an agent that has seen none: %v", err)
	}
}

// A store that was put back gives out an epoch again.
func TestAnswersOfAnotherLeadershipOfTheSameEpochAreRefused(t *testing.T) {
	k := tracker.New(start, host(1), tracker.Snapshot{})
	lead := func(epoch, number uint64) error {
		return k.Registered(&bursarv1.RegisterResponse{Epoch: epoch, Leadership: number})
	}
	says := func(want uint64) {
		t.Helper()
		if q := k.BuildRegister(); q.GetLeadership() != want {
			t.Errorf("a registration of leadership %d, want %d", q.GetLeadership(), want)
		}
		if q := k.BuildSync(start); q.GetLeadership() != want {
			t.Errorf("a sync of leadership %d, want %d", q.GetLeadership(), want)
		}
		if s := k.Snapshot(); s.Leadership != want {
			t.Errorf("leadership %d is saved, want %d", s.Leadership, want)
		}
	}
	if err := lead(5, 0); err != nil { // a coordinator of the version before
		t.Fatal(err)
	}
	says(0)
	k.Snapshot()
	if err := lead(5, 51); err != nil || !k.Unsaved() {
		t.Fatalf("the number of a leadership that was not known: %v, to save: %v", err, k.Unsaved())
	}
	says(51)
	var other *tracker.EpochError
	if err := lead(5, 52); !errors.As(err, &other) || other.Got != 5 || other.Have != 5 {
		t.Errorf("registration with another leadership of epoch 5: %v", err)
	}
	if _, err := k.Answer(start, k.BuildSync(start), &bursarv1.SyncResponse{Epoch: 5, Leadership: 52}); !errors.As(err, &other) {
		t.Errorf("answer of another leadership of epoch 5: %v", err)
	}
	says(51)
	k.Snapshot()
	if err := lead(5, 51); err != nil || k.Unsaved() {
		t.Errorf("the same leadership again: %v, to save: %t", err, k.Unsaved())
	}
	if err := lead(5, 0); err != nil {
		t.Errorf("a coordinator that does not say its leadership: %v", err)
	}
	says(51)

	k = tracker.New(start, host(2), k.Snapshot())
	says(51)
	if err := lead(5, 52); !errors.As(err, &other) {
		t.Errorf("registration with another leadership of epoch 5 after a restart: %v", err)
	}
	answer(t, k, k.BuildSync(start), &bursarv1.SyncResponse{Epoch: 6, Leadership: 61, Action: resync})
	says(61)
	if err := lead(7, 0); err != nil {
		t.Fatal(err)
	}
	says(0) // of epoch 7 it is not known
}

func TestLateAndRepeatedAnswersAreLeftAside(t *testing.T) {
	k := registered(t)
	first, second := k.BuildSync(start), k.BuildSync(start)
	old := &bursarv1.SyncResponse{Epoch: 5, LedgerSequence: 11, Grants: []*bursarv1.Allocation{grant("a", reserved, 11, 100)}}
	answer(t, k, second, &bursarv1.SyncResponse{Epoch: 5, LedgerSequence: 12, Gone: []string{"a"}})
	for range 2 {
		if _, err := k.Answer(start, first, old); !errors.Is(err, tracker.ErrLate) {
			t.Errorf("late answer: %v", err)
		}
	}
	same(t, "held", []string{}, held(k))
	if got := k.BuildSync(start).GetLedgerSequence(); got != 12 {
		t.Errorf("ledger sequence %d, want 12", got)
	}
}

func TestNewerEpochMakesTheAgentBeginAnew(t *testing.T) {
	k := registered(t, engine("a", 3, 100, 42))
	// A new leader cannot decide from a partial Sync which allocations are gone.
	outcome := answer(t, k, k.BuildSync(start), &bursarv1.SyncResponse{Epoch: 6, LedgerSequence: 2, Complete: true, Gone: []string{"a"}})
	same(t, "outcome", tracker.Outcome{}, outcome)
	same(t, "held", []string{"a"}, held(k))
	if !k.NeedsRegister() || k.Epoch() != 6 {
		t.Fatalf("needs register: %v, epoch %d", k.NeedsRegister(), k.Epoch())
	}
	register(t, k, 6)
	q := k.BuildSync(start)
	if !q.GetFull() || len(q.GetEngines()) != 1 || q.GetEngines()[0].GetGrant() == nil {
		t.Fatalf("sync after a change of leader: %v", q)
	}
	// Its revisions are those of a restored backup: lower, but newer.
	answer(t, k, q, &bursarv1.SyncResponse{Epoch: 6, LedgerSequence: 2, Complete: true, Grants: []*bursarv1.Allocation{engine("a", 2, 50, 42)}})
	a, _ := k.Get("a")
	same(t, "grant", engine("a", 2, 50, 42), a)
}

func TestResyncGivesNothingUp(t *testing.T) {
	k := registered(t, engine("a", 3, 100, 42), grant("b", reserved, 4, 100))
	answer(t, k, k.BuildSync(start), &bursarv1.SyncResponse{Epoch: 5, LedgerSequence: 20, Action: resync, Complete: true, Gone: []string{"a"}})
	same(t, "held", []string{"a", "b"}, held(k))
	if q := k.BuildSync(start); !q.GetFull() || q.GetLedgerSequence() != 0 || !k.NeedsRegister() {
		t.Errorf("after a resync: %v", q)
	}
}

func TestCompleteAnswerDropsWhatItDoesNotList(t *testing.T) {
	for name, test := range map[string]struct {
		change func(k *tracker.Tracker) // after the request was built
		want   []string
	}{
		// which has not heard that it runs
		"known to the ledger": {func(*tracker.Tracker) {}, []string{"a"}},
		"granted after the answer": {func(k *tracker.Tracker) {
			k.Observe(start, grant("new", reserved, 21, 100), 5)
		}, []string{"a", "new"}},
		"confirmed after the answer": {func(k *tracker.Tracker) {
			k.Observe(start, engine("b", 22, 100, 43), 5)
		}, []string{"a", "b"}},
	} {
		t.Run(name, func(t *testing.T) {
			k := registered(t, engine("a", 3, 100, 42), grant("b", reserved, 4, 100))
			q := k.BuildSync(start)
			test.change(k)
			answer(t, k, q, &bursarv1.SyncResponse{Epoch: 5, LedgerSequence: 20, Complete: true})
			same(t, "held", test.want, held(k))
		})
	}
}

func TestRestartedAgentKeepsAnEngineUntilTheLedgerHasHeardOfIt(t *testing.T) {
	saved := tracker.Snapshot{Epoch: 5, StoreID: "store-1", BootID: "boot-1", Engines: []*bursarv1.Allocation{engine("a", 300, 100, 42)}}
	k := tracker.New(start, host(2), saved)
	register(t, k, 6)
	q := k.BuildSync(start)
	// an answer of the leader before, under way until now
	k.Observe(start, engine("b", 301, 100, 43), 5)
	outcome := answer(t, k, q, &bursarv1.SyncResponse{Epoch: 6, LedgerSequence: 400, Complete: true})
	same(t, "held", []string{"b"}, held(k)) // of b the ledger could not know that it runs
	same(t, "forgotten", []*bursarv1.Allocation{engine("a", 300, 100, 42)}, outcome.Forgotten)
}

func TestGoneForgetsUnlessItIsNewsSince(t *testing.T) {
	k := registered(t, engine("a", 3, 100, 42), grant("b", reserved, 4, 100))
	q := k.BuildSync(start)
	k.Observe(start, grant("b", reserved, 25, 80), 5) // granted again
	outcome := answer(t, k, q, &bursarv1.SyncResponse{Epoch: 5, LedgerSequence: 20, Gone: []string{"a", "b", "unknown"}})
	same(t, "held", []string{"b"}, held(k))
	same(t, "forgotten", []*bursarv1.Allocation{engine("a", 3, 100, 42)}, outcome.Forgotten)
}

func TestStopsAreForEnginesThatAreHere(t *testing.T) {
	k := registered(t, engine("a", 3, 100, 42), grant("b", reserved, 4, 100))
	order := &bursarv1.StopOrder{AllocationId: "a", Reason: "enough"}
	for range 2 { // it is repeated until the engine has ended
		outcome := answer(t, k, k.BuildSync(start), &bursarv1.SyncResponse{
			Epoch: 5, LedgerSequence: 10, Stops: []*bursarv1.StopOrder{{AllocationId: "b"}, order, {AllocationId: "unknown"}},
		})
		same(t, "stops", []*bursarv1.StopOrder{order}, outcome.Stops)
	}
}

func TestDrainAndShutdown(t *testing.T) {
	k := registered(t, engine("a", 3, 100, 42))
	answer(t, k, k.BuildSync(start), &bursarv1.SyncResponse{Epoch: 5, LedgerSequence: 10, Action: drain})
	if !k.Draining() {
		t.Error("not draining")
	}
	outcome := answer(t, k, k.BuildSync(start), &bursarv1.SyncResponse{Epoch: 5, Action: shutdown, Complete: true})
	same(t, "outcome", tracker.Outcome{Shutdown: true}, outcome)
	same(t, "held", []string{"a"}, held(k))
}

func TestEverythingIsReportedAnewNowAndThen(t *testing.T) {
	k := registered(t, engine("a", 3, 100, 42))
	if q := k.BuildSync(start.Add(9 * time.Minute)); q.GetFull() {
		t.Error("full after 9 minutes")
	}
	if q := k.BuildSync(start.Add(10 * time.Minute)); !q.GetFull() || q.GetLedgerSequence() != 10 {
		t.Errorf("after 10 minutes: %v", q)
	}
}

// Every user with access to a coordinator can give it any pid, and any cgroup.
func TestNothingIsKilledOnTheCoordinatorsWordAlone(t *testing.T) {
	k := registered(t)
	told := engine("a", 12, 100, 42)
	told.Process.Cgroup = "/system.slice"
	stops := []*bursarv1.StopOrder{{AllocationId: "a", Reason: "enough"}}
	outcome := answer(t, k, k.BuildSync(start), &bursarv1.SyncResponse{
		Epoch: 5, LedgerSequence: 20, Grants: []*bursarv1.Allocation{told}, Stops: stops,
	})
	same(t, "held", []string{"a"}, held(k))
	same(t, "stops", []*bursarv1.StopOrder{}, outcome.Stops)
	same(t, "saved", 0, len(k.Snapshot().Engines))
	if engines := k.Engines(); len(engines) != 1 || engines[0].Process.GetCgroup() != "" {
		t.Errorf("measured: %v", engines)
	}

	k.Show("a", told.GetProcess())
	outcome = answer(t, k, k.BuildSync(start), &bursarv1.SyncResponse{Epoch: 5, LedgerSequence: 20, Stops: stops})
	same(t, "stops once it was shown", stops, outcome.Stops)
}
