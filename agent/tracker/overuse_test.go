package tracker_test

import (
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/bursar/bursar/agent/policy"
	"github.com/bursar/bursar/agent/tracker"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

const tick = 5 * time.Second

// judged returns a tracker with the engine "a" of 400 MiB and 1 core, pid 42, under a policy
// without tolerance.
func judged(t *testing.T, action policy.Action) *tracker.Tracker {
	t.Helper()
	a := engine("a", 3, 400, 42)
	a.Entitled.CpuMillis = new(int64(1000))
	k := registered(t, a)
	k.SetPolicies(policy.Set{{Action: action, Grace: 30 * time.Second, StopGrace: 7 * time.Second}}, tick)
	return k
}

// measure is so many ticks after the start.
func measure(k *tracker.Tracker, ticks int, available int64, usages ...tracker.Usage) {
	k.Measure(start.Add(time.Duration(ticks)*tick), tracker.Measurement{Sample: free(available), Usages: usages})
}

// beat sends a heartbeat and returns its report of "a"; nil: none.
func beat(t *testing.T, k *tracker.Tracker) *bursarv1.EngineReport {
	t.Helper()
	q := k.BuildSync(start)
	answer(t, k, q, &bursarv1.SyncResponse{Epoch: 5, LedgerSequence: 10})
	for _, report := range q.GetEngines() {
		if report.GetAllocationId() == "a" {
			return report
		}
	}
	return nil
}

func overUse(used, entitled int64, since int, what bursarv1.OverUsePolicy) *bursarv1.OverUse {
	return &bursarv1.OverUse{
		Dimension: "memory", Used: used * mib, Entitled: entitled * mib, Policy: what,
		Since: timestamppb.New(start.Add(time.Duration(since) * tick)),
	}
}

func TestOverUseIsUrgentWhenItBeginsAndEndsAndInEveryReport(t *testing.T) {
	k := judged(t, policy.Observe)
	measure(k, 1, 600, uses("a", 42, 400, 400))
	beat(t, k)
	measure(k, 2, 400, uses("a", 42, 600, 600))
	if !k.Urgent() || len(k.Notices()) != 1 || k.Notices()[0].Ended {
		t.Errorf("when it begins: urgent %t, %v", k.Urgent(), k.Notices())
	}
	want := []*bursarv1.OverUse{overUse(600, 400, 2, bursarv1.OverUsePolicy_OVER_USE_POLICY_OBSERVE)}
	same(t, "when it begins", want, beat(t, k).GetOverUse())
	beat(t, k) // with the next sample
	measure(k, 3, 300, uses("a", 42, 700, 700))
	if k.Urgent() || len(k.Notices()) != 0 {
		t.Errorf("while it goes on: urgent %t, %v", k.Urgent(), k.Notices())
	}
	same(t, "while it goes on", want, beat(t, k).GetOverUse())
	measure(k, 4, 300, uses("a", 42, 700, 700))
	beat(t, k)
	k.Resync()
	register(t, k, 5)
	same(t, "in full", want, beat(t, k).GetOverUse())
	same(t, "shown", want, k.All()[0].GetOverUse())
	same(t, "counted", map[tracker.OverUseKind]int{{Dimension: "memory", Action: policy.Observe}: 1}, k.OverUses())
	measure(k, 5, 600, uses("a", 42, 400, 400))
	if !k.Urgent() || len(k.Notices()) != 1 || !k.Notices()[0].Ended {
		t.Errorf("when it ends: urgent %t, %v", k.Urgent(), k.Notices())
	}
	report := beat(t, k)
	if report == nil || len(report.GetOverUse()) != 0 || len(k.All()[0].GetOverUse()) != 0 || len(k.OverUses()) != 0 {
		t.Errorf("when it has ended: %v", report)
	}
}

// The usage stays the same, but the begin or the end of an over-use, or another policy for it, must
// still be reported.
func TestChangeOfOverUseAloneIsReported(t *testing.T) {
	k := judged(t, policy.Warn)
	for n := 1; n <= 3; n++ {
		measure(k, n, 700, uses("a", 42, 300, 300))
		beat(t, k)
	}
	if report := beat(t, k); report != nil {
		t.Fatalf("nothing has changed: %v", report)
	}
	resized := func(revision uint64, memory int64) {
		a := engine("a", revision, memory, 42)
		k.Observe(start, a, 5)
	}
	resized(4, 200)
	measure(k, 4, 700, uses("a", 42, 300, 300))
	same(t, "lowered below it", []*bursarv1.OverUse{overUse(300, 200, 4, bursarv1.OverUsePolicy_OVER_USE_POLICY_WARN)}, beat(t, k).GetOverUse())
	measure(k, 5, 700, uses("a", 42, 300, 300))
	beat(t, k)
	resized(5, 100)
	measure(k, 6, 700, uses("a", 42, 300, 300))
	same(t, "lowered more", []*bursarv1.OverUse{overUse(300, 100, 4, bursarv1.OverUsePolicy_OVER_USE_POLICY_WARN)}, beat(t, k).GetOverUse())
	measure(k, 7, 700, uses("a", 42, 300, 300))
	beat(t, k)
	k.SetPolicies(policy.Set{{Action: policy.Kill, Grace: time.Minute}}, tick)
	measure(k, 8, 700, uses("a", 42, 300, 300))
	kill := overUse(300, 100, 4, bursarv1.OverUsePolicy_OVER_USE_POLICY_KILL)
	kill.StopTime = timestamppb.New(start.Add(8*tick + time.Minute))
	same(t, "under another policy", []*bursarv1.OverUse{kill}, beat(t, k).GetOverUse())
	resized(6, 0)
	measure(k, 9, 700, uses("a", 42, 300, 300))
	if report := beat(t, k); report == nil || len(report.GetOverUse()) != 0 {
		t.Errorf("not limited any more: %v", report)
	}
}

// Invariant 2: an engine counts with its entitlement, at any usage. Invariant 9: the excess is not
// given to others, because it is already missing from the available memory.
func TestExcessIsFeltByTheHeadroomAndNotByTheBooks(t *testing.T) {
	k := judged(t, policy.Warn)
	for _, test := range []struct {
		available, used int64 // MiB
		headroom        int64
	}{
		{1000, 0, 1000 - 100 - 400},
		{600, 400, 600 - 100},
		{300, 700, 300 - 100},
		{100, 900, 0},
	} {
		measure(k, 1, test.available, uses("a", 42, test.used, test.used))
		if got, known := k.Headroom(); !known || got != test.headroom*mib {
			t.Errorf("with %d MiB used: headroom %d MiB, want %d", test.used, got/mib, test.headroom)
		}
		if got := k.Stats().EntitledMemory; got != 400*mib {
			t.Errorf("with %d MiB used: booked %d MiB, want 400", test.used, got/mib)
		}
		if got := k.All()[0].GetEntitled().GetMemoryBytes(); got != 400*mib {
			t.Errorf("with %d MiB used: entitled to %d MiB", test.used, got/mib)
		}
	}
	measure(k, 2, 300, uses("a", 42, 700, 700))
	if got := k.Observe(start.Add(2*tick), grant("b", reserved, 11, 201), 5); got != tracker.Vetoed {
		t.Errorf("a grant of more than what the excess leaves: %v", got)
	}
	if got := k.Observe(start.Add(2*tick), grant("c", reserved, 12, 200), 5); got != tracker.Held {
		t.Errorf("a grant of what is left: %v", got)
	}
}

// Page cache does not count for an engine, neither in a cgroup nor in a tree of processes.
func TestOverUseIsOfWhatTheKernelCannotTakeBack(t *testing.T) {
	k := judged(t, policy.Warn)
	for n := 1; n <= 10; n++ {
		measure(k, n, 500, uses("a", 42, 5000, 400))
		if len(k.OverUses()) != 0 {
			t.Fatal("page cache counts as over-use")
		}
	}
}

func TestDueStopsAreOfEnginesThatWereShownAndAreNotStopping(t *testing.T) {
	k := judged(t, policy.Kill)
	for n := 1; n <= 7; n++ {
		if due := k.DueStops(start.Add(time.Duration(n) * tick)); len(due) != 0 {
			t.Fatalf("before the grace: %v", due)
		}
		measure(k, n, 400, uses("a", 42, 600, 600))
	}
	now := start.Add(7 * tick)
	want := []tracker.DueStop{{ID: "a", Grace: 7 * time.Second, Reason: "uses 600MiB of memory, is entitled to 400MiB, for 30s (policy kill)"}}
	same(t, "after the grace", want, k.DueStops(now))
	k.StopAsked(want[0], now)
	if due := k.DueStops(now.Add(29 * time.Second)); len(due) != 0 {
		t.Errorf("asked for: %v", due)
	}
	if due := k.DueStops(now.Add(30 * time.Second)); len(due) != 1 {
		t.Errorf("asked for a grace ago: %v", due)
	}
	k.StopAsked(want[0], time.Time{})
	k.StopAsked(tracker.DueStop{ID: "nobody"}, now)
	if due := k.DueStops(now); len(due) != 1 {
		t.Errorf("nobody heard: %v", due)
	}
	process := k.All()[0].GetProcess()
	k.Show("a", nil)
	if due := k.DueStops(now); len(due) != 0 {
		t.Errorf("of a process that only the coordinator tells of: %v", due)
	}
	k.Show("a", process)
	stopping := engine("a", 4, 400, 42)
	stopping.Stopping = true
	k.Observe(now, stopping, 5)
	if due := k.DueStops(now); len(due) != 0 {
		t.Errorf("stopping: %v", due)
	}
}

func TestOverUseIsOfOneProcess(t *testing.T) {
	k := judged(t, policy.Kill)
	for n := 1; n <= 7; n++ {
		measure(k, n, 400, uses("a", 42, 600, 600))
	}
	other := engine("a", 4, 400, 43)
	k.Show("a", other.GetProcess())
	k.Observe(start, other, 5)
	if due := k.DueStops(start.Add(7 * tick)); len(due) != 0 || len(k.OverUses()) != 0 {
		t.Errorf("of a process that was not measured: %v", due)
	}
	measure(k, 8, 400, uses("a", 43, 600, 600))
	since := k.All()[0].GetOverUse()[0].GetSince().AsTime()
	if !since.Equal(start.Add(8 * tick)) {
		t.Errorf("since %s", since.Sub(start))
	}
	k.Measure(start.Add(9*tick), tracker.Measurement{Sample: free(900), Usages: []tracker.Usage{{ID: "a", PID: 43, StartTime: 7, Ended: true}}})
	if len(k.OverUses()) != 0 || len(k.DueStops(start.Add(time.Hour))) != 0 {
		t.Error("over-use outlives its engine")
	}
}

func TestEngineThatIsNotMeasuredForLongIsNotInOverUse(t *testing.T) {
	k := judged(t, policy.Kill)
	measure(k, 1, 400, uses("a", 42, 600, 600))
	partial := uses("a", 42, 0, 0)
	partial.Partial = true
	measure(k, 2, 400, partial)
	measure(k, 7, 400)
	if len(k.OverUses()) != 1 {
		t.Error("forgotten too soon")
	}
	beat(t, k)
	beat(t, k)
	measure(k, 8, 400)
	if len(k.OverUses()) != 0 || !k.Urgent() || len(k.DueStops(start.Add(8*tick))) != 0 {
		t.Error("not forgotten")
	}
	if report := beat(t, k); report == nil || len(report.GetOverUse()) != 0 {
		t.Errorf("reported: %v", report)
	}
}

func TestOverUseOfCPUIsShownAndNothingIsStoppedForIt(t *testing.T) {
	k := judged(t, policy.Kill)
	busy := uses("a", 42, 100, 100)
	for n := 1; n <= 40; n++ {
		busy.CPUMillis = 3000
		measure(k, n, 900, busy)
	}
	want := []*bursarv1.OverUse{{
		Dimension: "cpu", Used: 3000, Entitled: 1000, Policy: bursarv1.OverUsePolicy_OVER_USE_POLICY_KILL,
		Since: timestamppb.New(start.Add(4 * tick)),
	}}
	same(t, "shown", want, k.All()[0].GetOverUse())
	if due := k.DueStops(start.Add(40 * tick)); len(due) != 0 {
		t.Errorf("due: %v", due)
	}
}
