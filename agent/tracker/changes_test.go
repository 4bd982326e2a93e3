package tracker_test

import (
	"hash/fnv"
	"maps"
	"slices"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"
	"pgregory.net/rapid"

	"github.com/bursar/bursar/agent/tracker"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// save stores the changes, or the whole state if needed. The stored state then equals a Snapshot.
func (w *world) save(t *rapid.T) {
	if change, enough := w.tracker.Change(); enough {
		w.saved = changed(w.saved, change)
	} else {
		w.saved = w.tracker.Snapshot()
	}
	if w.tracker.Unsaved() {
		t.Fatal("unsaved right after it was stored")
	}
	if diff := cmp.Diff(w.tracker.Snapshot(), w.saved, protocmp.Transform(), protocmp.IgnoreFields(&bursarv1.Allocation{}, "measured_peak", "measured_peak_source", "cpu_time")); diff != "" {
		t.Fatalf("stored (-snapshot +stored):\n%s", diff)
	}
}

// saveInVain saves to a full disk, with a Change or with a Snapshot after it.
func (w *world) saveInVain(t *rapid.T) {
	unsaved := w.tracker.Unsaved()
	if _, enough := w.tracker.Change(); enough {
		w.tracker.NotSaved()
	}
	if rapid.Bool().Draw(t, "all of it") {
		w.tracker.Snapshot()
		w.tracker.NotSaved()
	}
	if w.tracker.Unsaved() != unsaved {
		t.Fatalf("to be saved: %t after a failure, %t before", !unsaved, unsaved)
	}
}

// changed is a snapshot with a change applied, the slow way.
func changed(s tracker.Snapshot, c tracker.Change) tracker.Snapshot {
	engines, ended := map[string]*bursarv1.Allocation{}, map[string]*bursarv1.EngineEnd{}
	for _, a := range s.Engines {
		engines[a.GetId()] = a
	}
	for _, e := range s.Ended {
		ended[e.GetAllocationId()] = e
	}
	drop := func(id string) {
		delete(engines, id)
		delete(ended, id)
	}
	for _, id := range c.Gone {
		drop(id)
	}
	for _, a := range c.Engines {
		drop(a.GetId())
		engines[a.GetId()] = a
	}
	for _, e := range c.Ended {
		drop(e.GetAllocationId())
		ended[e.GetAllocationId()] = e
	}
	s.Engines, s.Ended = nil, nil
	for _, id := range slices.Sorted(maps.Keys(engines)) {
		s.Engines = append(s.Engines, engines[id])
	}
	for _, id := range slices.Sorted(maps.Keys(ended)) {
		s.Ended = append(s.Ended, ended[id])
	}
	return s
}

// sums compares the tracker's running totals with its entries.
func (w *world) sums(t *rapid.T) {
	left, _ := w.tracker.Headroom()
	sample := w.tracker.Sample()
	for _, a := range w.tracker.All() {
		left += max(0, a.GetEntitled().GetMemoryBytes()-a.GetUnreclaimableBytes())
	}
	if want := sample.GetMemoryAvailableBytes() - sample.GetMemorySafetyBytes(); left != want {
		t.Fatalf("headroom and what is promised are %d bytes: want %d", left, want)
	}
	for _, e := range w.tracker.Engines() {
		if id, ok := w.tracker.EngineOf(e.Process.GetPid(), e.Process.GetStartTime()); !ok || id != e.ID {
			t.Fatalf("the engine of process %v is %q, want %q", e.Process, id, e.ID)
		}
		if same, ok := w.tracker.Engine(e.ID); !ok || same.Process != e.Process {
			t.Fatalf("engine %s is %v", e.ID, same)
		}
	}
	if id, ok := w.tracker.EngineOf(w.pid+1, 7); ok {
		t.Fatalf("%s has the process of nobody", id)
	}
}

// digest is that of the contract, over all engines.
func digest(engines []tracker.Engine) (sum uint64) {
	for _, e := range engines {
		hash := fnv.New64a()
		hash.Write([]byte(e.ID))
		sum += hash.Sum64()
	}
	return sum
}
