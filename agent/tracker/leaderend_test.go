package tracker_test

import (
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/bursar/bursar/agent/policy"
	"github.com/bursar/bursar/agent/tracker"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

const (
	keep = bursarv1.LeaderEndPolicy_LEADER_END_POLICY_KEEP
	stop = bursarv1.LeaderEndPolicy_LEADER_END_POLICY_STOP
)

func leaderEnd(after time.Duration, exit *bursarv1.ExitStatus, policy bursarv1.LeaderEndPolicy) *bursarv1.LeaderEnd {
	return &bursarv1.LeaderEnd{Time: timestamppb.New(start.Add(after)), ExitStatus: exit, Policy: policy}
}

// left returns a measurement of the engine "a" after the end of its main process.
func left(k *tracker.Tracker, now time.Time, exit *bursarv1.ExitStatus, others ...tracker.Left) {
	usage := uses("a", 42, 10, 10)
	usage.Orphaned, usage.Left = true, others
	usage.LeaderEnd = &bursarv1.LeaderEnd{Time: timestamppb.New(now), ExitStatus: exit}
	k.Measure(now, tracker.Measurement{Sample: free(1000), Usages: []tracker.Usage{usage}})
}

// The end of a main process is reported at once, with every report, and with the tombstone. The
// first time is final; the exit status may be known later.
func TestTheEndOfAMainProcessIsReported(t *testing.T) {
	k := registered(t, engine("a", 3, 400, 42))
	k.Measure(start, tracker.Measurement{Sample: free(1000), Usages: []tracker.Usage{uses("a", 42, 10, 10)}})
	answer(t, k, k.BuildSync(start), &bursarv1.SyncResponse{Epoch: 5, LedgerSequence: 11})
	left(k, start.Add(time.Second), nil)
	if !k.Urgent() {
		t.Error("it is not urgent")
	}
	reported := func(what string, want *bursarv1.LeaderEnd) {
		t.Helper()
		sync := k.BuildSync(start)
		if len(sync.GetEngines()) != 1 {
			t.Fatalf("%s: %v", what, sync.GetEngines())
		}
		same(t, what, want, sync.GetEngines()[0].GetLeaderEnd())
		answer(t, k, sync, &bursarv1.SyncResponse{Epoch: 5, LedgerSequence: 11})
	}
	reported("first", leaderEnd(time.Second, nil, keep))
	same(t, "shown", leaderEnd(time.Second, nil, keep), k.All()[0].GetLeaderEnd())
	left(k, start.Add(2*time.Second), nil)
	if got := k.BuildSync(start).GetEngines(); len(got) != 0 {
		t.Errorf("nothing is new: %v", got)
	}
	code := &bursarv1.ExitStatus{Code: new(int32(3))}
	k.SetLeaderExit("a", code)
	k.SetLeaderExit("unknown", code)
	reported("its exit status", leaderEnd(time.Second, code, keep))
	k.SetLeaderExit("a", &bursarv1.ExitStatus{Signal: 9})
	left(k, start.Add(3*time.Second), nil)
	same(t, "it stays", leaderEnd(time.Second, code, keep), k.LeaderEnd("a"))
	gone := tracker.Usage{ID: "a", PID: 42, StartTime: 7, Ended: true, Exit: code}
	ends := k.Measure(start.Add(time.Minute), tracker.Measurement{Sample: free(1000), Usages: []tracker.Usage{gone}})
	same(t, "at the end", leaderEnd(time.Second, code, keep), ends[0].GetLeaderEnd())
}

// A restarted agent keeps its knowledge and asks nobody for it. It reports it to a new leader.
func TestALeftEngineSurvivesARestart(t *testing.T) {
	k := registered(t, engine("a", 3, 400, 42))
	others := []tracker.Left{{PID: 50, StartTime: 9, Descends: true}, {PID: 51, StartTime: 9}}
	k.Snapshot()
	left(k, start.Add(time.Second), nil, others...)
	change, enough := k.Change()
	if !enough || len(change.Engines) != 1 {
		t.Fatalf("%t: %v", enough, change)
	}
	same(t, "changed", map[string][]tracker.Left{"a": others}, change.Left)
	left(k, start.Add(2*time.Second), nil, others...)
	if k.Unsaved() {
		t.Error("nothing is new, and is to be stored")
	}
	saved := k.Snapshot()
	again := tracker.New(start.Add(time.Minute), host(2), saved)
	same(t, "how it ended", leaderEnd(time.Second, nil, keep), again.LeaderEnd("a"))
	found, there := again.Engine("a")
	if !there {
		t.Fatal("it is not there")
	}
	same(t, "the others", others, found.Left)
	register(t, again, 6)
	sync := again.BuildSync(start)
	same(t, "reported to a new leader", leaderEnd(time.Second, nil, keep), sync.GetEngines()[0].GetLeaderEnd())
	answer(t, again, sync, &bursarv1.SyncResponse{Epoch: 6, LedgerSequence: 3, Complete: true, Grants: []*bursarv1.Allocation{engine("a", 3, 400, 42)}})
	same(t, "after its answer", leaderEnd(time.Second, nil, keep), again.LeaderEnd("a"))
}

// An agent that has lost its state gets the end from the coordinator.
func TestTheCoordinatorsWordOfAMainProcess(t *testing.T) {
	a := engine("a", 3, 400, 42)
	a.LeaderEnd = leaderEnd(0, &bursarv1.ExitStatus{Signal: 15}, keep)
	k := registered(t, a)
	left(k, start.Add(time.Minute), nil)
	same(t, "it stays", a.GetLeaderEnd(), k.LeaderEnd("a"))
	k.Observe(start, engine("a", 12, 400, 43), 5) // another process
	if got := k.LeaderEnd("a"); got != nil {
		t.Errorf("of another process: %v", got)
	}
}

// With onLeaderEnd: stop, the other processes must be stopped. A coordinator that does not know of
// the end is asked again.
func TestOnLeaderEndStop(t *testing.T) {
	k := registered(t, engine("a", 3, 400, 42))
	k.SetPolicies(policy.Set{{StopGrace: 7 * time.Second, OnLeaderEnd: policy.StopAtLeaderEnd}}, time.Second)
	k.Measure(start, tracker.Measurement{Sample: free(1000), Usages: []tracker.Usage{uses("a", 42, 10, 10)}})
	if due := k.DueStops(start); len(due) > 0 {
		t.Errorf("its main process lives: %v", due)
	}
	left(k, start.Add(time.Second), &bursarv1.ExitStatus{Code: new(int32(0))})
	same(t, "its policy", leaderEnd(time.Second, &bursarv1.ExitStatus{Code: new(int32(0))}, stop), k.LeaderEnd("a"))
	want := []tracker.DueStop{{
		ID: "a", Grace: 7 * time.Second, AtLeaderEnd: true, Reason: "its main process ended with exit code 0 at 2026-03-01T12:00:01Z (policy onLeaderEnd: stop)",
	}}
	now := start.Add(time.Second)
	same(t, "due", want, k.DueStops(now))
	k.StopAsked(want[0], now)
	if due := k.DueStops(now.Add(6 * time.Second)); len(due) > 0 {
		t.Errorf("asked for: %v", due)
	}
	same(t, "asked for long ago", want, k.DueStops(now.Add(7*time.Second)))
	k.StopAsked(want[0], time.Time{})
	same(t, "nobody heard", want, k.DueStops(now))
	k.SetPolicies(nil, time.Second)
	if due := k.DueStops(now); len(due) > 0 {
		t.Errorf("under keep: %v", due)
	}
}

// A process is the reaper of one engine.
func TestAReaperHasOneEngine(t *testing.T) {
	one, other := engine("a", 3, 100, 42), engine("b", 3, 100, 43)
	one.Process.ReaperPid, one.Process.ReaperStartTime = new(int32(40)), new(uint64(5))
	other.Process.ReaperPid, other.Process.ReaperStartTime = new(int32(40)), new(uint64(5))
	k := registered(t, one)
	if pid, started := k.Reaper("a"); pid != 40 || started != 5 {
		t.Errorf("%d, %d", pid, started)
	}
	k = registered(t, one, other)
	for _, id := range []string{"a", "b", "unknown"} {
		if pid, _ := k.Reaper(id); pid != 0 {
			t.Errorf("%s: %d", id, pid)
		}
	}
	k.Show("b", nil) // known from a coordinator alone
	if got, _ := k.Engine("b"); got.Process.GetReaperPid() != 0 {
		t.Errorf("%v", got)
	}
}
