package tracker_test

import (
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/bursar/bursar/agent/policy"
	"github.com/bursar/bursar/agent/tracker"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

func incident(kind bursarv1.IncidentKind, count, most, bound int64, first, last time.Duration, ongoing bool) *bursarv1.Incident {
	return &bursarv1.Incident{
		Kind: kind, Dimension: "memory", Count: count, MostUsed: most, Bound: bound, Ongoing: ongoing,
		FirstTime: timestamppb.New(start.Add(first)), LastTime: timestamppb.New(start.Add(last)),
	}
}

const (
	memoryKill   = bursarv1.IncidentKind_INCIDENT_KIND_MEMORY_KILL
	overUsed     = bursarv1.IncidentKind_INCIDENT_KIND_OVER_USE
	limitNotHeld = bursarv1.IncidentKind_INCIDENT_KIND_LIMIT_NOT_HELD
)

// measured makes the tracker judge one engine that uses so many MiB at a second after the start.
func measured(k *tracker.Tracker, second int, memory int64) {
	at := start.Add(time.Duration(second) * time.Second)
	k.Measure(at, tracker.Measurement{Sample: free(1000), Usages: []tracker.Usage{uses("a", 42, memory, memory)}})
}

func ends(k *tracker.Tracker, second int) []*bursarv1.EngineEnd {
	at := start.Add(time.Duration(second) * time.Second)
	return k.Measure(at, tracker.Measurement{Sample: free(1000), Usages: []tracker.Usage{{ID: "a", PID: 42, StartTime: 7, Ended: true}}})
}

func observed() policy.Set {
	p := policy.Default()
	p.Tolerance = 0
	return policy.Set{p}
}

// After an over-use has ended, its count, its time and its maximum are still known.
func TestPassedOverUseIsReportedWithTheEnd(t *testing.T) {
	k := registered(t, engine("a", 3, 400, 42))
	k.SetPolicies(observed(), time.Second)
	for second, memory := range []int64{100, 500, 700, 600, 300, 410, 100} {
		measured(k, second, memory)
	}
	want := []*bursarv1.Incident{incident(overUsed, 2, 700*mib, 400*mib, 1*time.Second, 5*time.Second, false)}
	sync := k.BuildSync(start)
	same(t, "reported", want, sync.GetEngines()[0].GetIncidents())
	same(t, "shown", want, k.All()[0].GetIncidents())
	answer(t, k, sync, &bursarv1.SyncResponse{Epoch: 5, LedgerSequence: 11})
	measured(k, 7, 450)
	end := ends(k, 8)
	same(t, "at the end", []*bursarv1.Incident{incident(overUsed, 3, 700*mib, 400*mib, 1*time.Second, 7*time.Second, true)}, end[0].GetIncidents())
}

// Kills are reported at once, and repeated until an answer, even if nothing else has changed.
func TestKillsInALivingEngineAreReported(t *testing.T) {
	k := registered(t, engine("a", 3, 400, 42))
	measured(k, 0, 100)
	answer(t, k, k.BuildSync(start), &bursarv1.SyncResponse{Epoch: 5, LedgerSequence: 11})
	k.MemoryKilled("a", start.Add(time.Second), 2, 400*mib)
	if !k.Urgent() {
		t.Error("it is not urgent")
	}
	k.MemoryKilled("a", start.Add(2*time.Second), 1, 0)
	k.MemoryKilled("unknown", start, 1, 0)
	want := []*bursarv1.Incident{incident(memoryKill, 3, 400*mib, 0, 1*time.Second, 2*time.Second, false)}
	for range 2 {
		sync := k.BuildSync(start)
		if len(sync.GetEngines()) != 1 {
			t.Fatalf("reports: %v; want one", sync.GetEngines())
		}
		same(t, "reported", want, sync.GetEngines()[0].GetIncidents())
	}
	measured(k, 3, 100)
	answer(t, k, k.BuildSync(start), &bursarv1.SyncResponse{Epoch: 5, LedgerSequence: 12})
	if sync := k.BuildSync(start); len(sync.GetEngines()) > 0 {
		t.Errorf("reported once more: %v", sync.GetEngines())
	}
	if got := k.MemoryKills("a"); got != 3 {
		t.Errorf("%d kills are known, want 3", got)
	}
}

func TestALimitThatDoesNotHoldCountsOnceUntilItHolds(t *testing.T) {
	k := registered(t, engine("a", 3, 400, 42))
	measured(k, 0, 500)
	for second := range 3 {
		k.LimitNotHeld("a", start.Add(time.Duration(second)*time.Second), 400*mib)
	}
	same(t, "while it does not hold", []*bursarv1.Incident{incident(limitNotHeld, 1, 500*mib, 400*mib, 0, 2*time.Second, true)}, notOverUse(k))
	k.LimitHeld("a", start.Add(3*time.Second))
	k.LimitHeld("a", start.Add(4*time.Second))
	k.LimitNotHeld("a", start.Add(5*time.Second), 300*mib)
	k.LimitHeld("unknown", start)
	same(t, "again", []*bursarv1.Incident{incident(limitNotHeld, 2, 500*mib, 300*mib, 0, 5*time.Second, true)}, notOverUse(k))
}

func notOverUse(k *tracker.Tracker) (list []*bursarv1.Incident) {
	for _, i := range k.Incidents("a") {
		if i.GetKind() != overUsed {
			list = append(list, i)
		}
	}
	return list
}

// The next incarnation continues the counts, and does not count a continuing over-use again.
func TestIncidentsSurviveARestartAndAreNotCountedTwice(t *testing.T) {
	for name, test := range map[string]struct {
		afterwards []int64
		count      int64
		ongoing    bool
	}{
		"it goes on":                {[]int64{500, 500}, 1, true},
		"it has passed":             {[]int64{100, 100}, 1, false},
		"it passes, and is another": {[]int64{100, 500}, 2, true},
	} {
		k := registered(t, engine("a", 3, 400, 42))
		k.SetPolicies(observed(), time.Second)
		measured(k, 1, 500)
		k.MemoryKilled("a", start.Add(time.Second), 1, 0)
		saved := k.Snapshot()
		saved.BootID = "boot-1"
		k = tracker.New(start, host(2), saved)
		k.SetPolicies(observed(), time.Second)
		if got := k.MemoryKills("a"); got != 1 {
			t.Errorf("%s: %d kills are known, want 1", name, got)
		}
		for i, memory := range test.afterwards {
			measured(k, 2+i, memory)
		}
		got := k.Incidents("a")
		if len(got) != 2 || got[1].GetCount() != test.count || got[1].GetOngoing() != test.ongoing {
			t.Errorf("%s: %v; want a count of %d, ongoing %t", name, got, test.count, test.ongoing)
		}
	}
}

// A coordinator's counts of incidents are ignored: the agent counts.
func TestIncidentsOfACoordinatorAreNotTaken(t *testing.T) {
	a := engine("a", 3, 400, 42)
	a.Incidents = []*bursarv1.Incident{incident(memoryKill, 9, 0, 0, 0, 0, false)}
	k := registered(t, a)
	if got := k.Incidents("a"); len(got) > 0 {
		t.Errorf("the tracker has %v", got)
	}
	if got := k.All()[0].GetIncidents(); len(got) > 0 {
		t.Errorf("shown: %v", got)
	}
}
