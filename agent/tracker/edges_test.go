package tracker_test

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/bursar/bursar/agent/tracker"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

func TestEpochErrorsSayWhatIsWrongWithTheEpoch(t *testing.T) {
	for want, err := range map[string]tracker.EpochError{
		"epoch 4 is older than 5":          {Got: 4, Have: 5},
		"epoch 5 is of another leadership": {Got: 5, Have: 5},
		"epoch 9 is more than":             {Got: 9, Have: 5},
	} {
		if text := err.Error(); !strings.Contains(text, want) {
			t.Errorf("%q; want %q in it", text, want)
		}
	}
}

func TestTheIntervalIsWhatACoordinatorSaidLast(t *testing.T) {
	k := tracker.New(start, host(1), tracker.Snapshot{})
	if got := k.Interval(); got != 5*time.Second {
		t.Errorf("before any coordinator has spoken: %s", got)
	}
	register(t, k, 5)
	if got := k.Interval(); got != 3*time.Second {
		t.Errorf("registered: %s", got)
	}
	answer(t, k, k.BuildSync(start), &bursarv1.SyncResponse{Epoch: 5, Interval: durationpb.New(7 * time.Second)})
	if got := k.Interval(); got != 7*time.Second {
		t.Errorf("after a Sync: %s", got)
	}
	answer(t, k, k.BuildSync(start), &bursarv1.SyncResponse{Epoch: 5})
	if got := k.Interval(); got != 7*time.Second {
		t.Errorf("after a Sync that says nothing of it: %s", got)
	}
}

func TestWhatIsAnnouncedAnewIsRegisteredAnew(t *testing.T) {
	k := registered(t)
	if k.NeedsRegister() || !k.Agreed() {
		t.Fatal("not registered")
	}
	k.Announce(map[string]string{"zone": "b"}, &bursarv1.Resource{MemoryBytes: new(5 * mib)})
	if !k.NeedsRegister() || k.Agreed() {
		t.Error("the coordinator is not told")
	}
	q := k.BuildRegister()
	if q.GetLabels()["zone"] != "b" || q.GetProtected().GetMemoryBytes() != 5*mib {
		t.Errorf("announced: %v", q)
	}
	register(t, k, 5)
	if k.Agreed() {
		t.Error("agreed before everything was reported")
	}
}

// A registration carries the capacity too.
func TestARegistrationTellsTheCapacity(t *testing.T) {
	k := registered(t)
	k.SetCapacity(&bursarv1.Resource{MemoryBytes: new(500 * mib)})
	register(t, k, 5)
	if q := k.BuildSync(start); q.GetCapacity() != nil || !q.GetFull() || q.GetLedgerSequence() != 0 {
		t.Errorf("the Sync after a registration: %v", q)
	}
}

func TestOnlyWhatIsHeldCanBeHad(t *testing.T) {
	k := registered(t, engine("a", 3, 100, 42), grant("b", reserved, 4, 100))
	k.Measure(start, tracker.Measurement{Sample: free(150), Usages: []tracker.Usage{{ID: "a", PID: 42, StartTime: 7, Ended: true}}})
	k.Observe(start, grant("refused", reserved, 11, 300), 5)
	for id, want := range map[string]bool{"a": false, "b": true, "refused": false, "unknown": false} {
		if a, found := k.Get(id); found != want || (a != nil) != want {
			t.Errorf("%s: %v, %t", id, a, found)
		}
	}
	for id, want := range map[string]bool{"a": true, "b": false, "refused": false, "unknown": false} {
		if end := k.Ended(id); (end != nil) != want {
			t.Errorf("the end of %s: %v", id, end)
		}
	}
}

func TestAnEngineIsFoundByItsProcess(t *testing.T) {
	k := registered(t, engine("a", 3, 100, 42), grant("b", reserved, 4, 100))
	for _, test := range []struct {
		pid   int32
		start uint64
		want  string
	}{{42, 7, "a"}, {42, 8, ""}, {43, 7, ""}, {0, 0, ""}} {
		if id, found := k.EngineOf(test.pid, test.start); id != test.want || found != (test.want != "") {
			t.Errorf("process %d of %d: %q, %t", test.pid, test.start, id, found)
		}
	}
}

func TestAProcessIsCompletedForEnginesOnly(t *testing.T) {
	told := engine("a", 3, 100, 42)
	told.Process = &bursarv1.Process{Pid: 42}
	k := registered(t, told, grant("b", reserved, 4, 100))
	k.Snapshot()
	k.SetProcess("unknown", &bursarv1.Process{StartTime: 7})
	k.SetProcess("b", &bursarv1.Process{StartTime: 7})
	k.SetProcess("a", &bursarv1.Process{Pid: 43, StartTime: 7})
	if b, _ := k.Get("b"); b.GetProcess() != nil || k.Unsaved() {
		t.Errorf("b has the process %v; to be saved: %t", b.GetProcess(), k.Unsaved())
	}
	k.SetProcess("a", engine("a", 3, 100, 42).GetProcess())
	if !k.Unsaved() {
		t.Error("a process that was completed is not saved")
	}
	if told.GetProcess().GetStartTime() != 0 {
		t.Error("the coordinator's answer was changed")
	}
	resized := engine("a", 12, 50, 42)
	resized.Process = &bursarv1.Process{Pid: 42}
	k.Observe(start, resized, 5)
	if resized.GetProcess().GetStartTime() != 0 {
		t.Error("a later answer was changed")
	}
}

// Each part of a process's identity counts, because pids are reused.
func TestAnEngineThatWasShownIsNotReplacedByAnother(t *testing.T) {
	for name, other := range map[string]*bursarv1.Process{
		"another pid":                    {Pid: 43, StartTime: 7, BootId: "boot-1"},
		"the same pid, started later":    {Pid: 42, StartTime: 8, BootId: "boot-1"},
		"another pid and another start ": {Pid: 43, StartTime: 8, BootId: "boot-1"},
	} {
		t.Run(name, func(t *testing.T) {
			k := registered(t, engine("a", 3, 100, 42))
			k.Snapshot()
			k.Show("a", other)
			if list := k.Engines(); !list[0].Identified || k.Unsaved() {
				t.Errorf("engines: %+v, to be saved: %t", list, k.Unsaved())
			}
			// If the engine was not shown, to show another process does not identify it.
			k.Show("a", nil)
			k.Show("a", other)
			if list := k.Engines(); list[0].Identified {
				t.Errorf("identified by another process: %+v", list)
			}
		})
	}
}

// An engine that was not shown is measured by its process, in a copy of the coordinator's
// allocation.
func TestTheCgroupOfAnEngineThatWasNotShownIsNotMeasured(t *testing.T) {
	k := registered(t)
	told := engine("a", 12, 100, 42)
	told.Process.Cgroup = "/system.slice"
	answer(t, k, k.BuildSync(start), &bursarv1.SyncResponse{Epoch: 5, LedgerSequence: 20, Grants: []*bursarv1.Allocation{told}})
	k.Engines()
	if told.GetProcess().GetCgroup() != "/system.slice" {
		t.Error("the coordinator's answer was changed")
	}
	k.Show("a", told.GetProcess())
	if got := k.Engines()[0].Process.GetCgroup(); got != "/system.slice" {
		t.Errorf("shown, it is measured in %q", got)
	}
}

// An id may return: after a restored backup, or when a coordinator adopts an allocation that it had
// forgotten.
func TestWhatWasShownIsForgottenWithItsEngine(t *testing.T) {
	a := engine("a", 3, 100, 42)
	k := registered(t, a)
	answer(t, k, k.BuildSync(start), &bursarv1.SyncResponse{Epoch: 5, LedgerSequence: 20, Gone: []string{"a"}})
	again := proto.CloneOf(a)
	again.Revision = 21
	answer(t, k, k.BuildSync(start), &bursarv1.SyncResponse{Epoch: 5, LedgerSequence: 21, Grants: []*bursarv1.Allocation{again}})
	if list := k.Engines(); len(list) != 1 || list[0].Identified {
		t.Errorf("engines: %+v", list)
	}
}

func TestTheBooksOfTheHost(t *testing.T) {
	cpu := func(a *bursarv1.Allocation, millis int64) *bursarv1.Allocation {
		a.Entitled.CpuMillis = &millis
		return a
	}
	k := registered(t, cpu(engine("a", 3, 100, 42), 1000), cpu(engine("b", 4, 200, 43), 500), engine("ended", 5, 50, 44),
		cpu(grant("reserved", reserved, 6, 10), 250), grant("lease", active, 7, 1))
	usage := uses("a", 42, 60, 40)
	usage.CPUMillis = 700
	k.Measure(start, tracker.Measurement{Sample: free(200), Usages: []tracker.Usage{
		usage, {ID: "ended", PID: 44, StartTime: 7, Ended: true},
	}})
	k.Observe(start, grant("refused", reserved, 11, 300), 5)
	same(t, "books", tracker.Stats{
		Reserved: 1, Engines: 2, Leases: 1, Tombstones: 1, Vetoes: 1,
		EntitledMemory: 311 * mib, EntitledCPU: 1750, UsedMemory: 60 * mib, UsedCPU: 700, UnreclaimableMemory: 40 * mib,
	}, k.Stats())
}

// A Snapshot must be stored if it would differ from the last one, and only then: each is a write to
// the disk.
func TestWhatASnapshotHasIsToBeSavedWhenItChanges(t *testing.T) {
	a := engine("a", 3, 100, 42)
	resized := engine("a", 12, 90, 42)
	ended := tracker.Measurement{Sample: free(900), Usages: []tracker.Usage{{ID: "a", PID: 42, StartTime: 7, Ended: true}}}
	for name, test := range map[string]struct {
		change func(k *tracker.Tracker)
		want   bool
	}{
		"an engine is resized":   {func(k *tracker.Tracker) { k.Observe(start, resized, 5) }, true},
		"the same is told again": {func(k *tracker.Tracker) { k.Observe(start, a, 5) }, false},
		"it is released":         {func(k *tracker.Tracker) { k.Observe(start, grant("a", released, 12, 100), 5) }, true},
		"it ended":               {func(k *tracker.Tracker) { k.Measure(start, ended) }, true},
		"a reservation came":     {func(k *tracker.Tracker) { k.Observe(start, grant("b", reserved, 12, 10), 5) }, false},
		"a reservation went":     {func(k *tracker.Tracker) { k.Released("reserved") }, false},
		"a lease was renewed":    {func(k *tracker.Tracker) { k.Observe(start, grant("lease", active, 12, 1), 5) }, false},
		"a confirmation came":    {func(k *tracker.Tracker) { k.Observe(start, engine("reserved", 12, 10, 43), 5) }, true},
		"the ledger knows it no more": {func(k *tracker.Tracker) {
			answer(t, k, k.BuildSync(start), &bursarv1.SyncResponse{Epoch: 5, LedgerSequence: 12, Gone: []string{"a"}})
		}, true},
		"a new epoch": {func(k *tracker.Tracker) { register(t, k, 6) }, true},
		"another store": {func(k *tracker.Tracker) {
			_ = k.Registered(&bursarv1.RegisterResponse{Epoch: 5, StoreId: "store-2"})
		}, true},
		"the same registration": {func(k *tracker.Tracker) { register(t, k, 5) }, false},
		"a Sync without news": {func(k *tracker.Tracker) {
			answer(t, k, k.BuildSync(start), &bursarv1.SyncResponse{Epoch: 5, LedgerSequence: 11})
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			k := registered(t, a, grant("reserved", reserved, 4, 10), grant("lease", active, 5, 1))
			k.Snapshot()
			test.change(k)
			if got := k.Unsaved(); got != test.want {
				t.Errorf("to be saved: %t, want %t", got, test.want)
			}
		})
	}
	k := registered(t, a)
	k.Measure(start, ended)
	k.Snapshot()
	answer(t, k, k.BuildSync(start), &bursarv1.SyncResponse{Epoch: 5, LedgerSequence: 12, Acknowledged: []string{"a"}})
	if !k.Unsaved() || len(k.Snapshot().Ended) != 0 {
		t.Error("an acknowledged end is not taken out of what is saved")
	}
	if !tracker.New(start, host(1), tracker.Snapshot{}).Unsaved() {
		t.Error("a new tracker has nothing to save")
	}
}
