package tracker_test

import (
	"errors"
	"testing"

	"github.com/bursar/bursar/agent/policy"
	"github.com/bursar/bursar/agent/tracker"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

const (
	canceled = bursarv1.AllocationState_ALLOCATION_STATE_CANCELED
	expired  = bursarv1.AllocationState_ALLOCATION_STATE_EXPIRED
)

func ended(id string, pid int32) tracker.Measurement {
	return tracker.Measurement{Sample: free(900), Usages: []tracker.Usage{{ID: id, PID: pid, StartTime: 7, Ended: true}}}
}

func TestTheSameAnswerTwiceIsLate(t *testing.T) {
	k := registered(t)
	q := k.BuildSync(start)
	answer(t, k, q, &bursarv1.SyncResponse{Epoch: 5, LedgerSequence: 11})
	if _, err := k.Answer(start, q, &bursarv1.SyncResponse{Epoch: 5, LedgerSequence: 12}); !errors.Is(err, tracker.ErrLate) {
		t.Errorf("the second time: %v", err)
	}
}

func TestATombstoneGoesWhenItIsAcknowledgedAndNotBefore(t *testing.T) {
	k := registered(t, engine("a", 3, 100, 42), engine("b", 4, 100, 43))
	k.Measure(start, ended("a", 42))
	k.Observe(start, grant("a", released, 12, 100), 5)
	answer(t, k, k.BuildSync(start), &bursarv1.SyncResponse{
		Epoch: 5, LedgerSequence: 12, Gone: []string{"a"}, Acknowledged: []string{"b", "unknown"},
	})
	if k.Ended("a") == nil {
		t.Error("the end of a is forgotten before the coordinator has heard how")
	}
	same(t, "held", []string{"b"}, held(k)) // of which nothing has ended
}

// Two Syncs are in progress: the answer to the first does not confirm the content of the second.
func TestTheAnswerToAnEarlierSyncConfirmsNothingLater(t *testing.T) {
	k := registered(t, engine("a", 3, 100, 42))
	use := func(memory int64) {
		k.Measure(start, tracker.Measurement{Sample: free(900), Usages: []tracker.Usage{uses("a", 42, memory, memory)}})
	}
	use(10)
	first := k.BuildSync(start)
	use(20)
	k.BuildSync(start) // is lost
	answer(t, k, first, &bursarv1.SyncResponse{Epoch: 5, LedgerSequence: 10})
	if reports := k.BuildSync(start).GetEngines(); len(reports) != 1 || reports[0].GetUnreclaimableBytes() != 20*mib {
		t.Errorf("reports: %v", reports)
	}
}

func TestACapacityThatChangesWhileASyncIsUnderWayIsToldWithTheNext(t *testing.T) {
	k := registered(t)
	k.SetCapacity(&bursarv1.Resource{MemoryBytes: new(500 * mib)})
	q := k.BuildSync(start)
	k.SetCapacity(&bursarv1.Resource{MemoryBytes: new(600 * mib)})
	answer(t, k, q, &bursarv1.SyncResponse{Epoch: 5, LedgerSequence: 10})
	if got := k.BuildSync(start).GetCapacity().GetMemoryBytes(); got != 600*mib {
		t.Errorf("%d MiB are told, want 600", got/mib)
	}
}

func TestGrantsOfAnotherHostAreNotTaken(t *testing.T) {
	k := registered(t)
	other := grant("a", reserved, 11, 100)
	other.HostId = "h2"
	answer(t, k, k.BuildSync(start), &bursarv1.SyncResponse{Epoch: 5, LedgerSequence: 11, Grants: []*bursarv1.Allocation{other}})
	same(t, "held", []string{}, held(k))
}

func TestAGrantIsRefusedOnce(t *testing.T) {
	k := registered(t)
	k.Measure(start, tracker.Measurement{Sample: free(150)})
	told := grant("a", reserved, 11, 300)
	for i, want := range []int{1, 0} {
		q := k.BuildSync(start)
		out := answer(t, k, q, &bursarv1.SyncResponse{Epoch: 5, LedgerSequence: 10, Grants: []*bursarv1.Allocation{told}})
		if len(out.Vetoed) != want {
			t.Errorf("answer %d: %d are refused, want %d", i, len(out.Vetoed), want)
		}
	}
}

// A veto that came while a Sync was under way was not in it.
func TestAVetoThatNoSyncHasToldIsKept(t *testing.T) {
	k := registered(t)
	k.Measure(start, tracker.Measurement{Sample: free(150)})
	q := k.BuildSync(start)
	k.Observe(start, grant("a", reserved, 11, 300), 5)
	answer(t, k, q, &bursarv1.SyncResponse{Epoch: 5, LedgerSequence: 11})
	if _, pending := k.Veto("a"); !pending {
		t.Error("forgotten before it was told")
	}
}

func TestWhatEndedIsRememberedAsLongAsAnAnswerMayBeOlder(t *testing.T) {
	k := registered(t, engine("a", 10, 100, 42), engine("b", 9, 100, 43))
	answer(t, k, k.BuildSync(start), &bursarv1.SyncResponse{Epoch: 5, LedgerSequence: 10, Gone: []string{"a"}})
	same(t, "held when one is gone by the answer's own revision", []string{"b"}, held(k))

	k.Observe(start, grant("b", released, 13, 100), 5)
	answer(t, k, k.BuildSync(start), &bursarv1.SyncResponse{Epoch: 5, LedgerSequence: 11})
	if got := k.Observe(start, engine("b", 12, 100, 43), 5); got != tracker.Passed {
		t.Errorf("the answer to a call from before the release: verdict %d", got)
	}
	answer(t, k, k.BuildSync(start), &bursarv1.SyncResponse{Epoch: 5, LedgerSequence: 13})
	if k.Knows("b") {
		t.Error("remembered when no answer can be older any more")
	}
}

// An earlier leadership answered the call with the release: this says nothing about the age of the
// known state.
func TestAReleaseOfLongAgoDoesNotBringItsEngineBack(t *testing.T) {
	k := registered(t, engine("a", 12, 100, 42))
	k.Observe(start, grant("a", released, 1, 100), 4)
	if got := k.Observe(start, engine("a", 12, 100, 42), 5); got != tracker.Passed {
		t.Errorf("verdict %d", got)
	}
	k = registered(t, grant("b", reserved, 4, 100))
	k.Released("b")
	if got := k.Observe(start, engine("b", 3, 100, 43), 5); got != tracker.Passed {
		t.Errorf("a confirmation from before: verdict %d", got)
	}
}

func TestAReservationThatWasGivenUpIsNotHeld(t *testing.T) {
	for _, state := range []bursarv1.AllocationState{waiting, canceled, expired} {
		k := registered(t, grant("a", reserved, 3, 100))
		k.Observe(start, grant("a", state, 12, 100), 5)
		if list := held(k); len(list) != 0 {
			t.Errorf("%s: %v is held", state, list)
		}
	}
}

func TestALifeDoesNotGoBack(t *testing.T) {
	k := registered(t, engine("a", 3, 100, 42))
	k.Observe(start, grant("a", reserved, 12, 100), 5)
	if a, _ := k.Get("a"); a.GetState() != active {
		t.Errorf("it is %s again", a.GetState())
	}
}

func TestEachKindOfMemoryIsNewsByItself(t *testing.T) {
	k := registered(t, engine("a", 3, 100, 42))
	for i, u := range []tracker.Usage{uses("a", 42, 10, 10), uses("a", 42, 11, 10), uses("a", 42, 11, 9)} {
		k.Measure(start, tracker.Measurement{Sample: free(900), Usages: []tracker.Usage{u}})
		q := k.BuildSync(start)
		answer(t, k, q, &bursarv1.SyncResponse{Epoch: 5, LedgerSequence: 10})
		if len(q.GetEngines()) != 1 {
			t.Errorf("measurement %d is not reported", i)
		}
	}
}

func TestAnEngineThatEndedIsNotJudged(t *testing.T) {
	k := judged(t, policy.Observe)
	last := uses("a", 42, 600, 600)
	last.Ended = true
	measure(k, 1, 300, last)
	if len(k.Notices()) != 0 || len(k.OverUses()) != 0 {
		t.Errorf("noticed: %v, over-use: %v", k.Notices(), k.OverUses())
	}
	k = judged(t, policy.Observe)
	measure(k, 1, 300, uses("a", 42, 600, 600))
	k.Measure(start.Add(2*tick), ended("a", 42))
	measure(k, 3, 900)
	if len(k.Notices()) != 0 {
		t.Errorf("of an engine that ended in over-use: %v", k.Notices())
	}
}
