package tracker_test

import (
	"slices"
	"testing"
	"time"

	"github.com/bursar/bursar/agent/tracker"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// The tests of the headroom count in MiB: 100 of the available memory are always kept back.

func TestALastWordTakesNoSampleThatIsOlderThanItsTick(t *testing.T) {
	k := registered(t)
	k.SetPolicies(nil, 2*time.Second)
	k.Measure(start, tracker.Measurement{Sample: free(1000)})
	if verdict := k.Observe(start.Add(5*time.Second), grant("a", reserved, 11, 100), 5); verdict != tracker.Held {
		t.Errorf("after 5 s: %v, want it to stand: a measurement may be slow", verdict)
	}
	if verdict := k.Observe(start.Add(6*time.Second), grant("b", reserved, 12, 100), 5); verdict != tracker.Vetoed {
		t.Errorf("after 6 s without a measurement, of one in 2 s: %v", verdict)
	}
	k.Measure(start.Add(6*time.Second), tracker.Measurement{Sample: free(1000)})
	k.SetAvailable(250 * mib)
	if headroom, known := k.Headroom(); !known || headroom != 50*mib {
		t.Errorf("headroom %d, %v; want what is there now, less what is safe and what was promised", headroom, known)
	}
	k.SetAvailable(2000 * mib)
	if headroom, _ := k.Headroom(); headroom != 800*mib {
		t.Errorf("headroom %d: what engines have given back since the sample may still be theirs", headroom)
	}
}

func TestHeadroomCountsWhatIsPromisedAndNotTouched(t *testing.T) {
	k := registered(t, engine("slow", 3, 400, 42), engine("cache", 4, 200, 43), grant("new", reserved, 5, 50), grant("lease", active, 6, 30))
	for _, step := range []struct {
		name      string
		available int64
		usages    []tracker.Usage
		want      int64
	}{
		{"nothing measured: all promises in full", 1000, nil, 1000 - 100 - 400 - 200 - 50 - 30},
		{"started, nothing touched", 1000, []tracker.Usage{uses("slow", 42, 0, 0), uses("cache", 43, 0, 0)}, 1000 - 100 - 400 - 200 - 50 - 30},
		// What an engine touches moves from promised to not available: the headroom stays the
		// same.
		{"half touched", 800, []tracker.Usage{uses("slow", 42, 200, 200), uses("cache", 43, 0, 0)}, 800 - 100 - 200 - 200 - 50 - 30},
		{"all touched", 600, []tracker.Usage{uses("slow", 42, 400, 400), uses("cache", 43, 0, 0)}, 600 - 100 - 0 - 200 - 50 - 30},
		// Page cache is still available, and the promise to the engine that filled it is still
		// open.
		{"cache filled", 600, []tracker.Usage{uses("slow", 42, 400, 400), uses("cache", 43, 300, 10)}, 600 - 100 - 0 - 190 - 50 - 30},
		// Usage above the entitlement already reduces the available memory, and gives no credit.
		{"overused", 500, []tracker.Usage{uses("slow", 42, 500, 500), uses("cache", 43, 300, 10)}, 500 - 100 - 0 - 190 - 50 - 30},
		{"promised too much", 300, []tracker.Usage{uses("slow", 42, 500, 500), uses("cache", 43, 300, 10)}, 300 - 100 - 0 - 190 - 50 - 30},
	} {
		k.Measure(start, tracker.Measurement{Sample: free(step.available), Usages: step.usages})
		if got, known := k.Headroom(); !known || got != step.want*mib {
			t.Errorf("%s: headroom %d MiB (known %v), want %d", step.name, got/mib, known, step.want)
		}
	}
}

func TestHeadroomIsUnknownWithoutMeasurement(t *testing.T) {
	k := tracker.New(start, host(1), tracker.Snapshot{})
	if _, known := k.Headroom(); known {
		t.Error("known before the first sample")
	}
	k.Measure(start, tracker.Measurement{Sample: &bursarv1.HostSample{}})
	if _, known := k.Headroom(); known {
		t.Error("known from a sample without memory")
	}
}

func TestLastWord(t *testing.T) {
	pressed := free(1000)
	pressed.Pressure = true
	refusing := free(1000)
	refusing.Refusal = "/data: the file system is read-only"
	for name, test := range map[string]struct {
		sample  *bursarv1.HostSample
		after   time.Duration // from the sample to the grant
		memory  int64
		verdict tracker.Verdict
		told    int64 // MiB in the veto
		reason  string
	}{
		"fits just":              {free(500), 0, 300, tracker.Held, 0, ""},
		"short by a little":      {free(499), 0, 300, tracker.Vetoed, 299, ""},
		"promised too much":      {free(150), 0, 300, tracker.Vetoed, 0, ""},
		"no memory asked":        {free(0), 0, 0, tracker.Held, 0, ""},
		"unknown":                {&bursarv1.HostSample{}, 0, 1, tracker.Vetoed, 0, "no fresh measurement of its memory"},
		"stale":                  {free(1000), time.Minute, 1, tracker.Vetoed, 0, "no fresh measurement of its memory"},
		"not yet stale":          {free(1000), 30 * time.Second, 1, tracker.Held, 0, ""},
		"pressure":               {pressed, 0, 1, tracker.Vetoed, 800, "under memory pressure"},
		"no memory, in pressure": {pressed, 0, 0, tracker.Held, 0, ""},
		"refuses":                {refusing, 0, 1, tracker.Vetoed, 800, "/data: the file system is read-only"},
		"refuses, no memory":     {refusing, 0, 0, tracker.Vetoed, 800, "/data: the file system is read-only"},
		"refused long ago":       {refusing, time.Minute, 0, tracker.Vetoed, 0, "/data: the file system is read-only"},
	} {
		t.Run(name, func(t *testing.T) {
			k := registered(t, grant("other", reserved, 3, 100))
			k.Measure(start, tracker.Measurement{Sample: test.sample})
			k.BuildSync(start)
			now := start.Add(test.after)
			if got := k.Observe(now, grant("a", reserved, 11, test.memory), 5); got != test.verdict {
				t.Fatalf("verdict %d, want %d", got, test.verdict)
			}
			if k.Refusing() != (test.verdict == tracker.Vetoed) {
				t.Error("a veto must be told soon")
			}
			refusal, vetoed := k.Veto("a")
			if want := (tracker.Refusal{Headroom: test.told * mib, Reason: test.reason}); vetoed != (test.verdict == tracker.Vetoed) || refusal != want {
				t.Errorf("veto %v: %+v, want %+v", vetoed, refusal, want)
			}
		})
	}
}

func TestVetoIsToldUntilItWasHeard(t *testing.T) {
	k := registered(t)
	k.Measure(start, tracker.Measurement{Sample: free(200)})
	k.Observe(start, grant("a", reserved, 11, 300), 5)
	same(t, "held", []string{}, held(k))
	want := []*bursarv1.Veto{{AllocationId: "a", HeadroomBytes: 100 * mib, Revision: 11}}
	same(t, "first", want, k.BuildSync(start).GetVetoes()) // its answer is lost
	q := k.BuildSync(start)
	same(t, "second", want, q.GetVetoes())
	// The answer was made before the grant: it does not concern the veto.
	answer(t, k, q, &bursarv1.SyncResponse{Epoch: 5, LedgerSequence: 10})
	if got := k.Observe(start, grant("a", reserved, 11, 300), 5); got != tracker.Vetoed {
		t.Errorf("the same grant again: verdict %d", got)
	}
	q = k.BuildSync(start)
	answer(t, k, q, &bursarv1.SyncResponse{Epoch: 5, LedgerSequence: 12, Gone: []string{"a"}})
	same(t, "after it was heard", []*bursarv1.Veto(nil), k.BuildSync(start).GetVetoes())
	// Late, or granted again: only one of the two is new.
	if got := k.Observe(start, grant("a", reserved, 11, 300), 5); got != tracker.Passed {
		t.Errorf("the old grant, late: verdict %d", got)
	}
	k.Measure(start, tracker.Measurement{Sample: free(1000)})
	if got := k.Observe(start, grant("a", reserved, 14, 300), 5); got != tracker.Held {
		t.Errorf("granted again: verdict %d", got)
	}
}

func TestGrantsOfTheIncarnationBeforeAreNotJudgedAgain(t *testing.T) {
	// Its engine may have started and touched its memory before it is confirmed.
	k := tracker.New(start, host(2), tracker.Snapshot{})
	k.Measure(start, tracker.Measurement{Sample: free(150)})
	register(t, k, 5)
	outcome := answer(t, k, k.BuildSync(start), &bursarv1.SyncResponse{
		Epoch: 5, LedgerSequence: 10, Complete: true, Grants: []*bursarv1.Allocation{grant("a", reserved, 3, 300)},
	})
	same(t, "held", []string{"a"}, held(k))
	same(t, "vetoed", []*bursarv1.Allocation(nil), outcome.Vetoed)
	// A later answer, from a coordinator that was asked directly, does.
	outcome = answer(t, k, k.BuildSync(start), &bursarv1.SyncResponse{
		Epoch: 5, LedgerSequence: 12, Grants: []*bursarv1.Allocation{grant("b", reserved, 12, 10)},
	})
	same(t, "vetoed later", []*bursarv1.Allocation{grant("b", reserved, 12, 10)}, outcome.Vetoed)
}

func TestMemoryOfWhatHasEndedIsGivenToTheNextOfTheSameAnswer(t *testing.T) {
	// 1,000 MiB - 100 MiB safety: the second fits only without the first.
	first, second := grant("a", reserved, 9, 600), grant("b", reserved, 12, 500)
	for name, r := range map[string]*bursarv1.SyncResponse{
		"gone":       {Gone: []string{"a"}, Grants: []*bursarv1.Allocation{second}},
		"not listed": {Complete: true, Grants: []*bursarv1.Allocation{second}},
		"made small": {Grants: []*bursarv1.Allocation{second, grant("a", reserved, 11, 400)}},
	} {
		t.Run(name, func(t *testing.T) {
			k := registered(t, first)
			r.Epoch, r.LedgerSequence = 5, 12
			outcome := answer(t, k, k.BuildSync(start), r)
			same(t, "vetoed", []*bursarv1.Allocation(nil), outcome.Vetoed)
			if held := held(k); !slices.Contains(held, "b") {
				t.Errorf("held: %v, want the new grant, b", held)
			}
		})
	}
}

func TestEngineEndsOnce(t *testing.T) {
	k := registered(t, engine("a", 3, 100, 42))
	exit := &bursarv1.ExitStatus{Signal: 9}
	ended := tracker.Usage{ID: "a", PID: 42, StartTime: 7, Ended: true, Exit: exit}
	k.BuildSync(start)
	if ends := k.Measure(start, tracker.Measurement{Sample: free(900), Usages: []tracker.Usage{ended}}); len(ends) != 1 || !k.Urgent() {
		t.Fatalf("ends: %v, urgent: %v", ends, k.Urgent())
	}
	if ends := k.Measure(start, tracker.Measurement{Sample: free(900), Usages: []tracker.Usage{ended}}); len(ends) != 0 {
		t.Errorf("ended twice: %v", ends)
	}
	same(t, "held", []string{}, held(k))
	q := k.BuildSync(start)
	if len(q.GetEnded()) != 1 || q.GetDigest() != 0 {
		t.Fatalf("sync: %v", q)
	}
	same(t, "exit status", exit, q.GetEnded()[0].GetExitStatus())
	// The answer to an earlier Sync, or an answer with its old state, does not bring it back.
	answer(t, k, q, &bursarv1.SyncResponse{Epoch: 5, LedgerSequence: 12, Complete: true, Grants: []*bursarv1.Allocation{engine("a", 12, 100, 42)}})
	same(t, "held", []string{}, held(k))
	answer(t, k, k.BuildSync(start), &bursarv1.SyncResponse{Epoch: 5, LedgerSequence: 13, Acknowledged: []string{"a"}, Gone: []string{"a"}})
	if q := k.BuildSync(start); len(q.GetEnded()) != 0 || k.Knows("a") {
		t.Errorf("after the acknowledgement: %v", q)
	}
}

func TestMeasurementOfAnotherProcessSaysNothing(t *testing.T) {
	k := registered(t, engine("a", 3, 100, 42))
	stale := []tracker.Usage{
		{ID: "a", PID: 41, StartTime: 7, Ended: true}, {ID: "a", PID: 42, StartTime: 8, Ended: true}, {ID: "unknown", Ended: true},
	}
	if ends := k.Measure(start, tracker.Measurement{Sample: free(900), Usages: stale}); len(ends) != 0 {
		t.Errorf("ended: %v", ends)
	}
	same(t, "held", []string{"a"}, held(k))
}

func TestOrphansKeepTheEntitlement(t *testing.T) {
	k := registered(t, engine("a", 3, 400, 42))
	left := uses("a", 42, 150, 150)
	left.Orphaned = true
	k.Measure(start, tracker.Measurement{Sample: free(700), Usages: []tracker.Usage{left}})
	if got, _ := k.Headroom(); got != (700-100-250)*mib {
		t.Errorf("headroom %d MiB, want 350", got/mib)
	}
	if s := k.Stats(); s.Orphaned != 1 || s.Engines != 1 || s.EntitledMemory != 400*mib || s.UsedMemory != 150*mib {
		t.Errorf("stats: %+v", s)
	}
}

func TestReportsCarryWhatChanged(t *testing.T) {
	k := registered(t, engine("a", 3, 100, 42), engine("b", 4, 100, 43))
	measure := func(a, b int64) {
		k.Measure(start, tracker.Measurement{Sample: free(900), Usages: []tracker.Usage{uses("a", 42, a, a), uses("b", 43, b, b)}})
	}
	reports := func(q *bursarv1.SyncRequest) map[string]int64 {
		got := map[string]int64{}
		for _, r := range q.GetEngines() {
			got[r.GetAllocationId()] = r.GetUnreclaimableBytes() / mib
		}
		return got
	}
	answered := &bursarv1.SyncResponse{Epoch: 5, LedgerSequence: 10}
	measure(10, 20)
	if !k.Urgent() {
		t.Error("the first measurement of an engine must be told at once")
	}
	q := k.BuildSync(start)
	same(t, "first", map[string]int64{"a": 10, "b": 20}, reports(q))
	answer(t, k, q, answered)
	same(t, "nothing new", map[string]int64{}, reports(k.BuildSync(start)))
	measure(11, 20)
	// its answer is lost: it may have been heard
	same(t, "one changed", map[string]int64{"a": 11}, reports(k.BuildSync(start)))
	measure(10, 20)
	same(t, "changed back", map[string]int64{"a": 10}, reports(k.BuildSync(start)))
	q = k.BuildSync(start)
	same(t, "repeated", map[string]int64{"a": 10}, reports(q))
	answer(t, k, q, answered)
	same(t, "heard", map[string]int64{}, reports(k.BuildSync(start)))
}

func TestSmallChangesOfCPUAreNotNews(t *testing.T) {
	k := registered(t, engine("a", 3, 100, 42))
	reported := func(cpu int64) bool {
		u := uses("a", 42, 10, 10)
		u.CPUMillis = cpu
		k.Measure(start, tracker.Measurement{Sample: free(900), Usages: []tracker.Usage{u}})
		q := k.BuildSync(start)
		answer(t, k, q, &bursarv1.SyncResponse{Epoch: 5, LedgerSequence: 10})
		return len(q.GetEngines()) == 1
	}
	var got []bool
	for _, cpu := range []int64{500, 510, 490, 511, 5, 0, 0} {
		got = append(got, reported(cpu))
	}
	same(t, "reported", []bool{true, false, false, true, true, true, false}, got)
}

func TestCapacityIsToldUntilItWasHeard(t *testing.T) {
	k := registered(t)
	k.SetCapacity(&bursarv1.Resource{MemoryBytes: new(1000 * mib)})
	if k.BuildSync(start).GetCapacity() != nil {
		t.Error("the same capacity was told")
	}
	k.SetCapacity(&bursarv1.Resource{MemoryBytes: new(500 * mib)})
	if !k.Urgent() || k.BuildSync(start).GetCapacity().GetMemoryBytes() != 500*mib {
		t.Error("another capacity was not told")
	}
	q := k.BuildSync(start)
	answer(t, k, q, &bursarv1.SyncResponse{Epoch: 5, LedgerSequence: 10})
	if q.GetCapacity() == nil || k.BuildSync(start).GetCapacity() != nil {
		t.Error("want it told until it was answered")
	}
}

// A coordinator counts touched memory only together with a sample that is new to it.
func TestUseIsToldAgainBesideASampleThatIsNew(t *testing.T) {
	k := registered(t, engine("a", 1, 100, 42))
	reports := func(sample *bursarv1.HostSample) int {
		if sample != nil {
			k.Measure(start, tracker.Measurement{Sample: sample, Usages: []tracker.Usage{uses("a", 42, 60, 50)}})
		}
		q := k.BuildSync(start)
		answer(t, k, q, &bursarv1.SyncResponse{Epoch: 5, LedgerSequence: 11})
		return len(q.GetEngines())
	}
	for i, step := range []struct {
		what   string
		sample *bursarv1.HostSample
		want   int
	}{
		{"a first use, the sources of the sample are broken", &bursarv1.HostSample{}, 1},
		{"still the same sample", nil, 1},
		{"a good sample", free(900), 1},
		{"still the same, which has counted", nil, 0},
		{"another one, nothing new", free(900), 0},
	} {
		if got := reports(step.sample); got != step.want {
			t.Errorf("step %d, %s: %d reports, want %d", i, step.what, got, step.want)
		}
	}
	// A full report may go out with a sample that came before.
	k.Measure(start, tracker.Measurement{Sample: free(800), Usages: []tracker.Usage{uses("a", 42, 60, 50)}})
	answer(t, k, k.BuildSync(start), &bursarv1.SyncResponse{Epoch: 5, LedgerSequence: 11, Action: resync})
	register(t, k, 5)
	answer(t, k, k.BuildSync(start), &bursarv1.SyncResponse{Epoch: 5, LedgerSequence: 11, Complete: true, Grants: []*bursarv1.Allocation{engine("a", 1, 100, 42)}})
	if !k.Agreed() {
		t.Error("not agreed after a full report")
	}
	if got := reports(free(800)); got != 1 {
		t.Errorf("after a full report with an old sample: %d reports, want 1", got)
	}
}
