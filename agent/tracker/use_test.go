package tracker_test

import (
	"testing"
	"time"

	"github.com/bursar/bursar/agent/peak"
	"github.com/bursar/bursar/agent/policy"
	"github.com/bursar/bursar/agent/tracker"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

const (
	byTicks  = bursarv1.PeakSource_PEAK_SOURCE_TICKS
	byKernel = bursarv1.PeakSource_PEAK_SOURCE_KERNEL
	atLimit  = bursarv1.PeakSource_PEAK_SOURCE_LIMIT
)

// used is the usage of the engine "a" in a tick: all its memory, and its memory that the kernel
// cannot reclaim, in MiB.
func used(held, unreclaimable int64, cpu time.Duration) tracker.Usage {
	u := uses("a", 42, held, unreclaimable)
	u.PeakBytes, u.CacheBytes, u.Processes, u.CPUTime = u.UnreclaimableBytes, u.MemoryBytes-u.UnreclaimableBytes, 1, cpu
	return u
}

func gone(marks peak.Marks) tracker.Usage {
	return tracker.Usage{ID: "a", PID: 42, StartTime: 7, Ended: true, Marks: marks}
}

func measures(k *tracker.Tracker, u tracker.Usage) []*bursarv1.EngineEnd {
	return k.Measure(start, tracker.Measurement{Sample: free(1000), Usages: []tracker.Usage{u}})
}

// The end of an engine has the kernel's peaks, marked as such. Page cache is in no peak.
func TestTheEndOfAnEngineHasTheKernelsMarks(t *testing.T) {
	for name, test := range map[string]struct {
		marks  peak.Marks
		mib    int64
		source bursarv1.PeakSource
	}{
		"ticks alone":         {peak.Marks{}, 8, byTicks},
		"a spike":             {peak.Marks{CgroupBytes: 1100 * mib, CacheBytes: 700 * mib}, 400, byKernel},
		"killed at its limit": {peak.Marks{LimitBytes: 64 * mib}, 64, atLimit},
	} {
		k := registered(t, engine("a", 3, 400, 42))
		measures(k, used(700, 8, 0))
		if shown := k.All()[0]; shown.GetMeasuredPeak().GetMemoryBytes() != 8*mib || shown.GetMeasuredPeakSource() != byTicks {
			t.Errorf("%s: while it runs: %v", name, shown)
		}
		if report := k.BuildSync(start).GetEngines()[0]; report.GetMeasuredPeak().GetMemoryBytes() != 8*mib || report.GetMeasuredPeakSource() != byTicks {
			t.Errorf("%s: reported: %v", name, report)
		}
		release := k.LastUse("a", test.marks)
		ends := measures(k, gone(test.marks))
		if len(ends) != 1 || ends[0].GetMeasuredPeak().GetMemoryBytes() != test.mib*mib || ends[0].GetMeasuredPeakSource() != test.source {
			t.Errorf("%s: at the end: %v", name, ends)
		}
		if release.Peak.GetMemoryBytes() != test.mib*mib || release.Source != test.source {
			t.Errorf("%s: in a release: %v", name, release)
		}
	}
}

// An engine that ended before the first tick has only the kernel's peaks.
func TestAnEngineThatEndsBeforeATickHasAPeak(t *testing.T) {
	k := registered(t, engine("a", 3, 400, 42))
	ends := measures(k, gone(peak.Marks{CgroupBytes: 400 * mib, CPUTime: time.Second}))
	if got := ends[0]; got.GetMeasuredPeak().GetMemoryBytes() != 400*mib || got.GetMeasuredPeakSource() != byKernel || got.GetCpuTime().AsDuration() != time.Second {
		t.Errorf("%v", got)
	}
}

// CPU time never decreases, even if the meter does, and survives the agent.
func TestCPUTimeNeverGoesBack(t *testing.T) {
	k := registered(t, engine("a", 3, 400, 42))
	shown := func(k *tracker.Tracker) time.Duration { return k.All()[0].GetCpuTime().AsDuration() }
	for _, step := range []struct{ counted, want int }{{10, 10}, {25, 25}, {5, 25}, {9, 29}, {9, 29}} {
		measures(k, used(10, 10, time.Duration(step.counted)*time.Second))
		if got := shown(k); got != time.Duration(step.want)*time.Second {
			t.Errorf("counted %ds: %s, want %ds", step.counted, got, step.want)
		}
	}
	k.Show("a", engine("a", 3, 400, 42).GetProcess())
	saved := k.Snapshot()
	if len(saved.Engines) != 1 || saved.Engines[0].GetCpuTime().AsDuration() != 29*time.Second || saved.Engines[0].GetMeasuredPeak().GetMemoryBytes() != 10*mib {
		t.Fatalf("saved: %v", saved.Engines)
	}
	next := tracker.New(start, tracker.Host{ID: "h1", BootID: saved.BootID, Incarnation: 9}, saved)
	for _, step := range []struct{ counted, want int }{{3, 29}, {7, 33}} { // what the meter of the new agent finds
		measures(next, used(4, 4, time.Duration(step.counted)*time.Second))
		if got := shown(next); got != time.Duration(step.want)*time.Second {
			t.Errorf("after a restart, counted %ds: %s, want %ds", step.counted, got, step.want)
		}
	}
	if got := next.All()[0].GetMeasuredPeak().GetMemoryBytes(); got != 10*mib {
		t.Errorf("after a restart the peak is %d", got)
	}
	ends := measures(next, gone(peak.Marks{CPUTime: 40 * time.Second}))
	if got := ends[0].GetCpuTime().AsDuration(); got != 40*time.Second {
		t.Errorf("at the end: %s", got)
	}
}

// A report only for CPU time is sent only now and then: an engine without other changes costs no
// reports.
func TestCPUTimeAloneIsReportedNowAndThen(t *testing.T) {
	k := registered(t, engine("a", 3, 400, 42))
	reports := func(cpu time.Duration) int {
		measures(k, used(10, 10, cpu))
		sync := k.BuildSync(start)
		answer(t, k, sync, &bursarv1.SyncResponse{Epoch: 5, LedgerSequence: 11})
		return len(sync.GetEngines())
	}
	for _, step := range []struct {
		cpu  time.Duration
		want int
	}{{time.Second, 1}, {2 * time.Second, 0}, {30 * time.Second, 0}, {31 * time.Second, 1}, {32 * time.Second, 0}} {
		if got := reports(step.cpu); got != step.want {
			t.Errorf("at %s: %d reports, want %d", step.cpu, got, step.want)
		}
	}
}

// A policy that kills must not count memory that the engine may have released: it counts only
// memory that is known to be touched.
func TestMemoryThatMayBeGivenBackIsNoOverUse(t *testing.T) {
	k := registered(t, engine("a", 3, 100, 42))
	k.SetPolicies(policy.Set{{Action: policy.Kill}}, time.Second)
	unsure := used(300, 300, 0)
	unsure.UnsureBytes = 280 * mib
	measures(k, unsure)
	if over := k.All()[0].GetOverUse(); len(over) > 0 {
		t.Errorf("unsure: %v", over)
	}
	measures(k, used(300, 300, 0))
	if over := k.All()[0].GetOverUse(); len(over) != 1 {
		t.Errorf("touched: %v", over)
	}
}
