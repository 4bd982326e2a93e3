package tracker_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/bursar/bursar/agent/tracker"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

func usesBoth(memory, cpu int64) tracker.Usage {
	u := uses("a", 42, memory, memory)
	u.CPUMillis = cpu
	return u
}

func resourceOf(memory, cpu int64) *bursarv1.Resource {
	return &bursarv1.Resource{MemoryBytes: new(memory * mib), CpuMillis: new(cpu)}
}

// Reports have the measured peaks of an engine's memory and CPU, each on its own. Its end has
// these, and the last measurement.
func TestPeaksOfAnEngine(t *testing.T) {
	k := registered(t, engine("a", 3, 400, 42))
	for _, u := range []tracker.Usage{usesBoth(100, 900), usesBoth(300, 20), usesBoth(200, 800)} {
		k.Measure(start, tracker.Measurement{Sample: free(1000), Usages: []tracker.Usage{u}})
	}
	reports := k.BuildSync(start).GetEngines()
	if len(reports) != 1 {
		t.Fatalf("reports: %v; want one", reports)
	}
	if diff := cmp.Diff(resourceOf(300, 900), reports[0].GetMeasuredPeak(), protocmp.Transform()); diff != "" {
		t.Errorf("reported (-want +got):\n%s", diff)
	}
	shown := k.All()[0]
	if diff := cmp.Diff(resourceOf(300, 900), shown.GetMeasuredPeak(), protocmp.Transform()); diff != "" {
		t.Errorf("shown (-want +got):\n%s", diff)
	}
	gone := tracker.Usage{ID: "a", PID: 42, StartTime: 7, Ended: true}
	ends := k.Measure(start.Add(time.Second), tracker.Measurement{Sample: free(1000), Usages: []tracker.Usage{gone}})
	if len(ends) != 1 {
		t.Fatalf("ends: %v; want one", ends)
	}
	want := &bursarv1.EngineEnd{Measured: resourceOf(200, 800), MeasuredPeak: resourceOf(300, 900)}
	got := &bursarv1.EngineEnd{Measured: ends[0].GetMeasured(), MeasuredPeak: ends[0].GetMeasuredPeak()}
	if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
		t.Errorf("at the end (-want +got):\n%s", diff)
	}
}

// The reason why an engine could not be stopped is reported at once, and repeated until an answer.
// The end of that condition is reported as well.
func TestAFailedStopIsReported(t *testing.T) {
	k := registered(t, engine("a", 3, 400, 42))
	said := func(sync *bursarv1.SyncRequest) string {
		if reports := sync.GetEngines(); len(reports) == 1 {
			return reports[0].GetStopError()
		}
		return "nothing"
	}
	expect := func(what, want string) *bursarv1.SyncRequest {
		t.Helper()
		sync := k.BuildSync(start)
		if got := said(sync); got != want {
			t.Errorf("%s: says %q; want %q", what, got, want)
		}
		return sync
	}
	expect("before", "nothing")
	k.SetStopError("a", "it does not end")
	if !k.Urgent() {
		t.Error("it is not urgent")
	}
	expect("first", "it does not end")
	k.Measure(start, tracker.Measurement{Sample: free(1000)})
	sync := expect("not answered", "it does not end")
	answer(t, k, sync, &bursarv1.SyncResponse{Epoch: 5, LedgerSequence: 11})
	expect("answered", "nothing")
	k.SetStopError("a", "it does not end")
	expect("the same again", "nothing")
	k.SetStopError("a", "")
	expect("not any more", "")
	k.SetStopError("unknown", "text")
}

// A limit in the kernel is reported until an answer, and shown.
func TestALimitThatHoldsIsReported(t *testing.T) {
	k := registered(t, engine("a", 3, 400, 42))
	k.Measure(start, tracker.Measurement{Sample: free(1000)})
	answer(t, k, k.BuildSync(start), &bursarv1.SyncResponse{Epoch: 5, LedgerSequence: 11})
	for _, limit := range []int64{4096, 8192, 0} {
		k.Measure(start, tracker.Measurement{Sample: free(1000)})
		k.SetMemoryLimit("a", limit)
		for range 2 {
			if reports := k.BuildSync(start).GetEngines(); len(reports) != 1 || reports[0].GetMemoryLimitBytes() != limit {
				t.Errorf("%v; want a limit of %d", reports, limit)
			}
		}
		answer(t, k, k.BuildSync(start), &bursarv1.SyncResponse{Epoch: 5, LedgerSequence: 11})
		k.SetMemoryLimit("a", limit)
		if reports := k.BuildSync(start).GetEngines(); len(reports) > 0 {
			t.Errorf("the same again: %v", reports)
		}
	}
	k.SetMemoryLimit("unknown", 1)
}
