package tracker_test

import (
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/bursar/bursar/agent/tracker"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

const (
	starting = bursarv1.Phase_PHASE_STARTING
	ready    = bursarv1.Phase_PHASE_READY
	failed   = bursarv1.Phase_PHASE_FAILED
)

// reported returns the report of engine a in the next Sync, which is answered; nil: the Sync has
// none.
func reported(t *testing.T, k *tracker.Tracker) *bursarv1.EngineReport {
	t.Helper()
	k.Measure(start, tracker.Measurement{Sample: free(1000)})
	q := k.BuildSync(start)
	answer(t, k, q, &bursarv1.SyncResponse{Epoch: 5, LedgerSequence: 10})
	for _, r := range q.GetEngines() {
		if r.GetAllocationId() == "a" {
			return r
		}
	}
	return nil
}

// Each report of an engine has its start and its phase. A result is reported at once.
func TestReportsSayHowFarAnEngineIs(t *testing.T) {
	k := registered(t, engine("a", 3, 100, 42))
	if r := reported(t, k); r.GetLogDirectory() != "" || r.GetPhase() != 0 {
		t.Errorf("before it has begun: %v", r)
	}
	k.SetBegun("a", "/log/a", true)
	if r := reported(t, k); r.GetLogDirectory() != "/log/a" || r.GetPhase() != starting {
		t.Errorf("when it has begun: %v", r)
	}
	if r := reported(t, k); r != nil {
		t.Errorf("without news: %v", r)
	}
	k.SetPhase("a", ready, "", start.Add(time.Second))
	if !k.Urgent() {
		t.Error("that it is ready is not urgent")
	}
	q := k.BuildSync(start) // its answer is lost
	if r := reported(t, k); len(q.GetEngines()) != 1 || r.GetPhase() != ready || r.GetLogDirectory() != "/log/a" {
		t.Errorf("when it is ready: %v, then %v", q, r)
	}
	// The phase is final.
	k.SetPhase("a", failed, "late", start)
	k.SetBegun("a", "/log/a", true)
	again := engine("a", 12, 100, 42)
	k.Observe(start, again, 5)
	k.Resync()
	register(t, k, 5)
	if r := reported(t, k); r.GetPhase() != ready || r.GetLogDirectory() != "/log/a" || r.GetGrant() == nil {
		t.Errorf("in full: %v", r)
	}
	if all := k.All(); all[0].GetPhase() != ready || !all[0].GetPhaseTime().AsTime().Equal(start.Add(time.Second)) {
		t.Errorf("the agent shows %v", all)
	}
	// Another process is another engine.
	other := engine("a", 13, 100, 43)
	k.Observe(start, other, 5)
	if k.Phase("a") != 0 {
		t.Error("another engine is ready by the first one")
	}
}

// An engine may be ready and end between two reports.
func TestTheEndOfAnEngineSaysHowFarItWas(t *testing.T) {
	for name, results := range map[string]int{"before its end": 0, "after its end": 1, "never": 2} {
		t.Run(name, func(t *testing.T) {
			k := registered(t, engine("a", 3, 100, 42))
			k.SetBegun("a", "/log/a", true)
			if results == 0 {
				k.SetPhase("a", ready, "", start)
			}
			k.Measure(start, tracker.Measurement{Usages: []tracker.Usage{{ID: "a", PID: 42, StartTime: 7, Ended: true}}})
			if results == 1 {
				k.SetPhase("a", ready, "", start)
			}
			want := ready
			if results == 2 {
				want = 0
			}
			q := k.BuildSync(start)
			if len(q.GetEnded()) != 1 || q.GetEnded()[0].GetPhase() != want || q.GetEnded()[0].GetLogDirectory() != "/log/a" || len(q.GetEngines()) != 0 {
				t.Errorf("%v", q)
			}
		})
	}
}

func TestAnEngineWithoutACheckHasNoPhase(t *testing.T) {
	k := registered(t, engine("a", 3, 100, 42))
	k.SetPhase("a", ready, "", start)
	k.SetBegun("a", "/log/a", false)
	k.SetPhase("a", failed, "x", start)
	k.SetPhase("none", failed, "x", start)
	k.SetBegun("none", "/x", true)
	if r := reported(t, k); r.GetLogDirectory() != "/log/a" || r.GetPhase() != 0 || k.Phase("a") != 0 {
		t.Errorf("%v", r)
	}
}

// The next incarnation of the agent knows a result from its own state or from the coordinator, and
// checks again if there is none.
func TestAResultOutlivesTheAgent(t *testing.T) {
	for name, test := range map[string]struct {
		own, coordinators, want bursarv1.Phase
	}{
		"it was starting":                     {starting, starting, starting},
		"it was ready":                        {ready, starting, ready},
		"it has failed":                       {failed, starting, failed},
		"only the coordinator has heard that": {starting, ready, ready},
		"the coordinator knows better":        {failed, ready, ready},
	} {
		t.Run(name, func(t *testing.T) {
			a := engine("a", 3, 100, 42)
			k := registered(t, a)
			k.SetBegun("a", "/log/a", true)
			k.Snapshot()
			why := ""
			if test.own == failed {
				why = "why"
			}
			k.SetPhase("a", test.own, why, start)
			if test.own != starting && !k.Unsaved() {
				t.Error("it is not stored")
			}
			now := proto.CloneOf(a)
			now.Phase, now.Revision = test.coordinators, 12
			k.Observe(start, now, 5)
			next := tracker.New(start, host(2), k.Snapshot())
			next.SetBegun("a", "/log/a", true)
			if got := next.Phase("a"); got != test.want {
				t.Errorf("%s: want %s", got, test.want)
			}
			register(t, next, 5)
			if r := next.BuildSync(start).GetEngines()[0]; r.GetPhase() != test.want || (r.GetPhaseReason() == "why") != (test.want == failed) {
				t.Errorf("%v", r)
			}
		})
	}
}
