package ledger_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/internal/identity"
	"github.com/bursar/bursar/label"
	"github.com/bursar/bursar/resource"
	"github.com/bursar/bursar/test/underrace"
)

// madeUp is an engine that an agent makes up: with n parts, each in a queue of the given depth.
func madeUp(id, n, depth, note int, cluster func(part int) string) ledger.EngineReport {
	grant := &ledger.Allocation{
		Caller: "alice@h1", Process: ledger.Process{PID: int32(id)}, Labels: label.Set{{Key: "note", Value: strings.Repeat("x", note)}, {Key: "user", Value: "alice"}},
		Entitled: resource.NewResource(resource.Vector{}.WithMemory(1)),
	}
	for part := range n {
		at := resource.Address{Kind: "yarn", Cluster: cluster(part), Path: "root" + strings.Repeat(".a", depth-1)}
		grant.Entitled.External = append(grant.Entitled.External, resource.External{Address: at, Vector: resource.Vector{}.WithMemory(1)})
	}
	return ledger.EngineReport{ID: ledger.ID(id), Grant: grant}
}

// report sends a full report of h1 and says how long the ledger was busy with it.
func (w *liveWorld) report(sequence uint64, engines []ledger.EngineReport) (ledger.SyncResult, time.Duration) {
	w.Helper()
	available := int64(1 << 50)
	runtime.LockOSThread() // its time is taken
	defer runtime.UnlockOSThread()
	began := threadTime(w.T)
	result, err := w.ledger.Sync(w.now, ledger.SyncCommand{
		HostID: "h1", Incarnation: 1, Sequence: sequence, Full: true, Engines: engines, Seen: w.ledger.Revision(),
		Sample: &ledger.Sample{Time: w.now + ledger.Instant(sequence), MemoryAvailable: &available},
	})
	must(w.T, err)
	return result, threadTime(w.T) - began
}

// threadTime is how long the processor was busy with this thread, whatever else the machine does.
func threadTime(t *testing.T) time.Duration {
	t.Helper()
	var now unix.Timespec
	must(t, unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &now))
	return time.Duration(now.Nano())
}

// engines counts the engines of h1 that the ledger has.
func (w *liveWorld) engines() (n int) {
	w.ledger.HostAllocations("h1", func(*ledger.Allocation) bool { n++; return true })
	return n
}

func (w *liveWorld) queues() (n int) {
	w.ledger.Queues(resource.Address{}, func(ledger.QueueInfo) bool { n++; return true })
	return n
}

func heapInUse() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func TestAHostsAgentBringsFewQueuesThatNobodyElseKnows(t *testing.T) {
	w := newLiveWorld(t, ledger.Config{}, "h1")
	var engines []ledger.EngineReport
	for i := range 500 {
		engines = append(engines, madeUp(i+1, 8, 32, 100, func(part int) string { return fmt.Sprintf("c%d-%d", i, part) }))
	}
	plain := madeUp(1000, 1, 1, 10, func(int) string { return "c0-0" })
	result, took := w.report(2, append(engines, plain))
	if n := w.queues(); n < 512 || n > 1024 {
		t.Errorf("there are %d queues: want at most 1024", n)
	}
	if n := w.engines(); n != 5 {
		t.Errorf("%d engines were taken over: want the 4 that bring 1024 queues, and the one in a queue that is there", n)
	}
	if result.Action != ledger.ActionNone {
		t.Errorf("the agent is asked for %v: want nothing, what is too much stays so", result.Action)
	}
	t.Logf("took %v", took)
	w.audit()

	// Once a provider reports a queue it does not count any more, and ended engines make room.
	name := ledger.ClusterName{Kind: "yarn", Cluster: "c0-0"}
	must(t, w.ledger.PutProvider(w.now, ledger.ProviderRecord{ClusterName: name}))
	must(t, w.ledger.ReportCluster(w.now, ledger.ClusterReport{ClusterName: name, Asked: w.now, GoodFor: time.Hour, Queues: []ledger.QueueReport{{Path: "root"}, {Path: "root.a", Parent: "root"}}}))
	w.audit()
	small := func(id, depth int) ledger.EngineReport {
		return madeUp(id, 1, depth, 10, func(int) string { return fmt.Sprint("d", id) })
	}
	kept := []ledger.EngineReport{engines[0], engines[1], engines[2], engines[3], plain}
	w.report(3, append(kept, small(2001, 1), small(2002, 1), small(2003, 1)))
	if n := w.engines(); n != 7 {
		t.Errorf("%d engines after two queues were reported: want two more than 5", n)
	}
	w.audit()
	w.report(4, nil)
	w.audit()
	result, _ = w.report(5, []ledger.EngineReport{small(3001, 32)})
	if n := w.engines(); n != 1 || len(result.Grants) != 1 {
		t.Errorf("%d engines after all others are gone: want one", n)
	}
	w.audit()
}

// An agent may have any number of engines in queues that exist: each counts with what it takes.
func TestAQueueOfAnEngineCountsWithWhatItTakes(t *testing.T) {
	w := newLiveWorld(t, ledger.Config{}, "h1")
	const n = 300
	engines := make([]ledger.EngineReport, n)
	for i := range engines {
		engines[i] = madeUp(i+1, 8, 32, 10, func(part int) string { return fmt.Sprint("c", part) })
	}
	w.report(2, engines[:1])
	before := heapInUse()
	for sequence := uint64(3); w.engines() < n; sequence++ {
		if sequence > 100 {
			t.Fatalf("%d engines are taken over", w.engines())
		}
		w.report(sequence, engines)
		w.ledger.Changes()
	}
	took := (heapInUse() - before) / (n - 1)
	a, _ := w.ledger.Get(1)
	counts := a.LiveBytes() + ledger.LiveOverhead + 8*32*ledger.ChargeOverhead
	t.Logf("%d bytes each, counted as %d", took, counts)
	if took > counts {
		t.Errorf("each takes %d bytes and counts as %d", took, counts)
	}
	w.audit()
	runtime.KeepAlive(w)
	runtime.KeepAlive(engines)
}

// The loop serves others between two reports.
func TestOneReportOfAnAgentTakesLittleTime(t *testing.T) {
	for name, engine := range map[string]func(i int) ledger.EngineReport{
		"no parts": func(i int) ledger.EngineReport { return madeUp(i+1, 0, 0, 900, nil) },
		"the same queues": func(i int) ledger.EngineReport {
			return madeUp(i+1, 8, 32, 900, func(part int) string { return fmt.Sprint("c", part) })
		},
		"other queues": func(i int) ledger.EngineReport {
			return madeUp(i+1, 8, 32, 900, func(part int) string { return fmt.Sprint("c", i, "-", part) })
		},
		"flat": func(i int) ledger.EngineReport {
			return madeUp(i+1, 8, 1, 900, func(part int) string { return fmt.Sprint("c", part) })
		},
		"beyond what counts": func(i int) ledger.EngineReport {
			e := madeUp(i+1, 8, 32, 900, func(part int) string { return fmt.Sprint("c", part) })
			for part := range e.Grant.Entitled.External {
				e.Grant.Entitled.External[part].Vector = resource.Vector{}.WithMemory(resource.MaxQuantity)
			}
			return e
		},
	} {
		t.Run(name, func(t *testing.T) {
			var engines []ledger.EngineReport
			for i := range 6000 {
				engines = append(engines, engine(i))
			}
			const most = 250 * time.Millisecond * underrace.Factor
			least := time.Hour
			for attempt := 0; attempt < 5 && least > most; attempt++ {
				least = min(least, longestReport(t, engines))
			}
			if least > most {
				t.Errorf("a report took %v: want at most %v", least, most)
			}
		})
	}
}

// longestReport reports the engines until all that can be adopted are, and returns the longest
// time that the ledger was busy with one report.
func longestReport(t *testing.T, engines []ledger.EngineReport) time.Duration {
	t.Helper()
	w := newLiveWorld(t, ledger.Config{}, "h1")
	longest, has, reports := time.Duration(0), 0, 0
	for resync := true; resync; reports++ {
		if reports > 200 {
			t.Fatal("the agent is asked for full reports without end")
		}
		result, took := w.report(uint64(2+reports), engines)
		longest = max(longest, took)
		resync = result.Action == ledger.ActionResync
		now := w.engines()
		if resync && now == has {
			t.Fatal("another full report is asked for, although nothing of this one was taken over")
		}
		has = now
		w.ledger.Changes()
	}
	t.Logf("%d reports, %d engines, longest %v", reports, has, longest)
	w.audit()
	return longest
}

func TestWhatOneReportLeavesIsTakenOverFromTheNext(t *testing.T) {
	w := newLiveWorld(t, ledger.Config{}, "h1")
	// of each engine: the host, two queues and the nine above each
	const n, places, most = 600, 1 + 2*10, 8192
	engines := make([]ledger.EngineReport, n)
	for i := range engines {
		engines[i] = madeUp(i+1, 2, 10, 10, func(part int) string { return fmt.Sprint("c", part) })
	}
	result, _ := w.report(2, engines)
	first := w.engines()
	if first != most/places || result.Action != ledger.ActionResync {
		t.Fatalf("%d of %d engines were taken over, and the agent is asked for %v: want %d, and a full report", first, n, result.Action, most/places)
	}
	if _, err := w.ledger.Allocate(w.now, ledger.AllocateCommand{Actor: identity.Local(), Resource: resource.NewResource(resource.Vector{}.WithMemory(1))}); err == nil {
		t.Error("the host gets new grants before all its engines are known")
	}
	result, _ = w.report(3, engines)
	if now := w.engines(); now != n || result.Action != ledger.ActionNone {
		t.Errorf("%d of %d engines were taken over, and the agent is asked for %v", now, n, result.Action)
	}
	if len(result.Grants) != n || !result.Complete {
		t.Errorf("the answer lists %d of %d engines, complete %t", len(result.Grants), n, result.Complete)
	}
	if _, err := w.ledger.Allocate(w.now, ledger.AllocateCommand{Actor: identity.Local(), Resource: resource.NewResource(resource.Vector{}.WithMemory(1))}); err != nil {
		t.Errorf("the host gets no new grants: %v", err)
	}
	w.audit()
}
