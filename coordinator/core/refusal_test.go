package core

import (
	"errors"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/store"
	"github.com/bursar/bursar/coordinator/store/storetest"
	"github.com/bursar/bursar/test/trapplacer"
)

// TestWhatIsRefusedIsRefusedByWhoeverLeadsNext: invariant 10 holds for all coordinators of a store,
// and across restarts.
func TestWhatIsRefusedIsRefusedByWhoeverLeadsNext(t *testing.T) {
	disk := storetest.NewMemory("test")
	sprung := new(atomic.Int64)
	over := func(version string) *rig {
		r := newRig(t, disk.Open())
		r.core.Drop(ErrNotLeading)
		r.core.newPlacer = trapplacer.Trap("Choose", trapMemory, sprung)
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

	// Another version may be fixed. This one is not.
	other := over("2")
	_, err = other.asks("bad", trapMemory, 0, false)
	other.faulted(err)
	other.commit()
	other.answers = nil
	if sprung.Load() != 2 || len(other.core.Refusals()) != 1 {
		t.Errorf("%d panics, %q", sprung.Load(), other.core.Refusals())
	}

	// In an upgrade they lead in turns: each version has lost one leadership, and loses no other.
	for _, version := range []string{"1", "2", "1", "2"} {
		again := over(version)
		again.now = again.now.Add(time.Hour)
		_, _ = again.asks("bad", trapMemory, 0, false)
		again.answered("bad: refused")
		if !again.core.Leading() || sprung.Load() != 2 || len(again.core.Refusals()) != 1 {
			t.Errorf("version %s: leading %t, %d panics, it refuses %q", version, again.core.Leading(), sprung.Load(), again.core.Refusals())
		}
		again.ask("another of "+version, 10, 0)
		again.commit()
	}

	// After a day with a leader it is allowed again, and the row is deleted.
	late := over("2")
	late.now = late.now.Add(RefusedFor)
	late.core.Drop(ErrNotLeading)
	late.lead(0)
	if len(late.core.Refusals()) != 1 {
		t.Errorf("it refuses %q after a day in which no coordinator led", late.core.Refusals())
	}
	late.now = late.now.Add(RefusedFor)
	late.ask("another", 10, 0)
	late.commit()
	if stored := late.stored(); len(stored.Refusals) != 0 {
		t.Errorf("%+v; want none", stored.Refusals)
	}
}

// TestWhatIsRefusedIsBounded: the oldest is accepted again, and its row is deleted.
func TestWhatIsRefusedIsBounded(t *testing.T) {
	r := newRig(t, storetest.NewMemory("test").Open())
	for i := range mostRefused + 3 {
		r.core.refused.Add(&Origin{Procedure: "/Allocate", Caller: strconv.Itoa(i)}, r.now.Add(time.Duration(i)), strings.Repeat("é", 1000))
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

// TestEachVersionHasABoundOfItsOwn: a version that panics on many commands does not displace the
// refusals of another one, and the sum is bounded, too.
func TestEachVersionHasABoundOfItsOwn(t *testing.T) {
	r := newRig(t, storetest.NewMemory("test").Open())
	at := r.now
	panicking := func(version string, commands int) {
		r.core.Drop(ErrNotLeading)
		r.core.SetVersion(version)
		r.lead(0)
		for i := range commands {
			at++
			r.core.refused.Add(&Origin{Procedure: "/Allocate", Caller: strconv.Itoa(i)}, at, "boom")
		}
		r.now = max(r.now, at)
		r.commit()
	}
	count := func(version string) (n int) {
		r.core.Drop(ErrNotLeading)
		r.core.SetVersion(version)
		r.lead(0)
		return len(r.core.Refusals())
	}
	panicking("1", 5)
	panicking("2", mostRefused+7)
	panicking("1", 5) // the same ones
	if one, two := count("1"), count("2"); one != 5 || two != mostRefused {
		t.Errorf("version 1 refuses %d, version 2 %d; want 5 and %d", one, two, mostRefused)
	}
	for i := range mostVersions {
		panicking("next "+strconv.Itoa(i), mostRefused)
	}
	if one, last := count("1"), count("next "+strconv.Itoa(mostVersions-1)); one != 0 || last != mostRefused {
		t.Errorf("version 1 refuses %d, the last one %d; want none and %d", one, last, mostRefused)
	}
	if all := len(r.stored().Refusals); all != mostRefused*mostVersions {
		t.Errorf("the store has %d; want %d", all, mostRefused*mostVersions)
	}
}

// TestARefusalOfAnEarlierBursarHolds: the key of its row was the command alone.
func TestARefusalOfAnEarlierBursarHolds(t *testing.T) {
	command := &Origin{Procedure: "/Allocate", Caller: "alice"}
	r := newRig(t, storetest.NewMemory("test").Open())
	r.core.SetVersion("1")
	row := ledger.Refusal{Hash: command.Hash(), Version: "1", Procedure: "/Allocate", Caller: "alice", At: r.now, Unversioned: true}
	meta, err := r.store.Lead(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.store.Commit(t.Context(), store.Batch{Epoch: meta.Epoch, Changes: ledger.Changes{Revision: 1, Refusals: []ledger.Refusal{row}}}); err != nil {
		t.Fatal(err)
	}
	r.core.Drop(ErrNotLeading)
	r.lead(0)
	found := r.core.refused.Of(command, r.now)
	if found == nil || *found != row || strings.Contains(found.ID(), "-") {
		t.Fatalf("%+v; want %+v, under its row's key", found, row)
	}
	r.core.SetVersion("2")
	r.core.Drop(ErrNotLeading)
	r.lead(0)
	r.core.refused.Add(command, r.now, "boom")
	r.commit()
	if stored := r.stored().Refusals; len(stored) != 2 {
		t.Errorf("%+v; want the row of version 1 as well", stored)
	}
	r.core.Drop(ErrNotLeading)
	r.lead(0)
	r.now = r.now.Add(RefusedFor)
	r.ask("another", 10, 0)
	r.commit()
	if stored := r.stored().Refusals; len(stored) != 0 {
		t.Errorf("%+v; want none after a day", stored)
	}
}

// stored returns the content of the store.
func (r *rig) stored() ledger.Snapshot {
	r.t.Helper()
	meta, err := r.store.Meta(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	s, err := r.store.Load(r.t.Context(), meta.Epoch, time.Time{}, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	return s
}

// A wrong time in the store does not prolong a refusal, or later ones.
func TestARefusalLastsADayWhateverTimeItsRowHas(t *testing.T) {
	var r RefusedSet
	now := ledger.Instant(1e18)
	far := ledger.Refusal{Hash: [32]byte{1}, At: now.Add(1e6 * time.Hour)}
	r.restore([]ledger.Refusal{far, {Hash: [32]byte{2}, At: now - 1}}, nil, now)
	r.Add(&Origin{Procedure: "p"}, now, "boom")
	if r.expire(now.Add(RefusedFor)); len(r.list) != 0 {
		t.Errorf("after a day %+v", r.list)
	}
}
