package coordinator

import (
	"errors"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unicode/utf8"

	"connectrpc.com/connect"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/store/storetest"
	"github.com/bursar/bursar/resource"
)

// TestWhatIsRefusedIsRefusedByWhoeverLeadsNext: invariant 10 holds over all coordinators of a store, and through restarts.
func TestWhatIsRefusedIsRefusedByWhoeverLeadsNext(t *testing.T) {
	disk := storetest.NewMemory("test")
	sprung := new(atomic.Int64)
	over := func(version string) *rig {
		r := newRig(t, disk.Open())
		r.core.Drop(ErrNotLeading)
		r.core.newPlacer = trapped("Choose", trapMemory, sprung)
		r.core.SetVersion(version)
		r.lead(0)
		return r
	}
	first := over("1")
	first.host()
	first.answers = nil
	_, err := first.asks("bad", trapMemory, 0, false)
	first.faulted(err)
	batch := first.core.Take()
	if batch == nil || batch.Size() != 0 || len(batch.Refusals) != 1 {
		t.Fatalf("%+v; want what is refused to be written at once, before any command", batch)
	}
	batch.Answer(errors.New("lost"))
	first.core.Drop(ErrNotLeading) // its commit has failed, and so it is still to be written
	first.lead(0)
	first.commit()
	first.answered("bad: fault")
	if batch := first.core.Take(); batch != nil {
		t.Errorf("it is written again: %+v", batch)
	}

	second := over("1")
	second.now = second.now.Add(time.Minute)
	_, _ = second.asks("bad", trapMemory, 0, false)
	second.answered("bad: refused")
	if !second.core.Leading() || second.core.Fault() != nil || sprung.Load() != 1 {
		t.Errorf("leading %t, %v, %d panics; want the second coordinator to lead on", second.core.Leading(), second.core.Fault(), sprung.Load())
	}
	if list := second.core.Refusals(); len(list) != 1 || !strings.Contains(list[0], "a trap in Choose") {
		t.Errorf("it says that it refuses %q", list)
	}

	// Another version may have been mended. The one before goes on refusing, where it leads again.
	other := over("2")
	_, err = other.asks("bad", trapMemory, 0, false)
	other.faulted(err)
	other.commit()
	other.answers = nil
	if sprung.Load() != 2 || len(other.core.Refusals()) != 1 {
		t.Errorf("%d panics, %q", sprung.Load(), other.core.Refusals())
	}

	// After a day it is let through, and the row goes.
	late := over("2")
	late.now = late.now.Add(refusedFor)
	late.core.Drop(ErrNotLeading)
	late.lead(0)
	late.ask("another", 10, 0)
	late.commit()
	meta, err := late.store.Meta(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if stored, err := late.store.Load(t.Context(), meta.Epoch, time.Time{}); err != nil || len(stored.Refusals) != 0 {
		t.Errorf("%+v, %v; want none", stored.Refusals, err)
	}
}

// TestWhatIsRefusedIsBounded: the oldest is let through again, and its row goes.
func TestWhatIsRefusedIsBounded(t *testing.T) {
	r := newRig(t, newMemoryStore())
	for i := range mostRefused + 3 {
		r.core.refused.add(&Origin{Procedure: "/Allocate", Caller: strconv.Itoa(i)}, r.now.Add(time.Duration(i)), strings.Repeat("é", 1000))
		if i == mostRefused-1 {
			r.commit()
		}
	}
	r.commit()
	r.core.Drop(ErrNotLeading)
	r.lead(0)
	list := r.core.refused.list
	if len(list) != mostRefused || list[0].Caller != "3" || len(r.core.refused.origins) != mostRefused || r.core.refused.unkept != 0 {
		t.Errorf("%d are refused, of %d callers, the first of %s, %d not kept", len(list), len(r.core.refused.origins), list[0].Caller, r.core.refused.unkept)
	}
	if cause := list[0].Cause; len(cause) > mostCause+3 || !utf8.ValidString(cause) {
		t.Errorf("a cause of %d bytes: %q", len(cause), cause)
	}
}

// TestARestartDoesNotLetThroughWhatIsRefused: through the wire.
func TestARestartDoesNotLetThroughWhatIsRefused(t *testing.T) {
	disk := storetest.NewMemory("test")
	sprung := new(atomic.Int64)
	bad := func(f *fixture, id string) error {
		req := request(id, 6<<30)
		_, err := f.allocations.Allocate(t.Context(), req)
		return err
	}
	run := func(s *Server) { s.core.newPlacer = trapped("Choose", 6<<30, sprung) }
	f := start(t, Config{}, disk.Open(), run)
	f.host("h1", 8<<30)
	if err := bad(f, "bad"); connect.CodeOf(err) != connect.CodeInternal {
		t.Fatalf("%v; want INTERNAL", err)
	}
	eventually(t, "it leads again", func() bool { return connect.CodeOf(bad(f, "again")) == connect.CodeFailedPrecondition })
	f.stop()

	f = start(t, Config{}, disk.Open(), run)
	before := f.status()
	if !strings.Contains(strings.Join(before.GetWarnings(), "\n"), "AllocationService/Allocate of ") {
		t.Errorf("status does not say what is refused: %q", before.GetWarnings())
	}
	if err := bad(f, "bad"); connect.CodeOf(err) != connect.CodeFailedPrecondition {
		t.Errorf("%v; want FAILED_PRECONDITION", err)
	}
	if n := sprung.Load(); n != 1 || f.status().GetEpoch() != before.GetEpoch() {
		t.Errorf("%d panics, epoch %d after %d; want no leadership lost", n, f.status().GetEpoch(), before.GetEpoch())
	}
}

// Rules that are read from a file again are other values in memory, and the same rules.
func TestRulesOfFilesReadAgainAreTheSame(t *testing.T) {
	read := func(minimum int64) map[string][]ledger.Quota {
		return map[string][]ledger.Quota{"file:q": {{
			Limit:         resource.Vector{}.WithMemory(8),
			Normalization: &resource.Normalization{Minimum: resource.Vector{}.WithMemory(minimum)},
		}}}
	}
	if first, again := originOfFiles(read(1)), originOfFiles(read(1)); first.hash() != again.hash() {
		t.Error("rules that made the ledger panic would not be known again")
	}
	if originOfFiles(read(1)).hash() == originOfFiles(read(2)).hash() {
		t.Error("other rules would be refused with them")
	}
}
