package storetest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/store"
)

// Opener opens a store at one place. After an earlier store was closed, the new one finds its rows.
type Opener func(t *testing.T) store.Store

// Run tests all requirements of a store. fresh makes a new place without rows, and returns a
// function that opens stores there; the suite closes them.
func Run(t *testing.T, fresh func(t *testing.T) Opener) {
	t.Helper()
	for _, c := range []struct {
		name string
		run  func(*testing.T, Opener)
	}{
		{"a new store is empty and has an identity that stays", testNew},
		{"leadership raises the epoch for good", testLead},
		{"the keys of seals stay, and only a leader gets them", testSealKeys},
		{"an older epoch changes and reads nothing", testFence},
		{"nothing is committed before the first leadership", testNobodyLeads},
		{"the leader of another process is deposed by the next", testReopenedEpoch},
		{"a batch with a row that cannot be written changes nothing", testAtomic},
		{"a commit that fails ends its epoch", testFailureEndsEpoch},
		{"a context that has ended changes nothing", testCanceled},
		{"an empty batch checks the epoch", testEmptyBatch},
		{"a batch without rows may keep the time", testKeepTime},
		{"of several transitions the last is the row", testLastTransition},
		{"live allocations are taken while others are read", testTake},
		{"what was lost and is adopted again is live", testAdopted},
		{"what was brought back and ended again counts on its host", testBroughtBack},
		{"what is removed and put in one batch is there", testRemovedAndPut},
		{"the row of a launch is there until it is removed", testLaunch},
		{"a request id is remembered until it may be forgotten", testRemember},
		{"request ids are listed newest first, page by page", testRememberedPages},
		{"the latest allocation of a request id is found", testByRequest},
		{"history comes newest first, page by page, filtered", testHistory},
		{"history gives up a page after a bounded search", testSparseHistory},
		{"the index of the history changes no answer, however far it is filled", testIndex},
		{"what is deleted has no entries, and what was left in the index is removed", testSweep},
		{"only who leads fills the index of the history", testIndexFence},
		{"a token of others is refused", testBadToken},
		{"what has ended is read and deleted from the oldest on, in steps", testDelete},
		{"what has ended counts in the history of the one who is charged", testCharged},
		{"a batch may be large", testLargeBatch},
		{"readers see whole batches and never wait", testReaders},
		{"a closed store says so", testClosed},
	} {
		t.Run(c.name, func(t *testing.T) { c.run(t, fresh(t)) })
	}
	t.Run("what was committed is what is loaded", func(t *testing.T) { testModel(t, fresh) })
	t.Run("the history that is found is the one that there is", func(t *testing.T) { testIndexModel(t, fresh) })
}

// opened opens a store for the length of the test.
func opened(t *testing.T, open Opener) store.Store {
	t.Helper()
	s := open(t)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return s
}

// leading opens a store and takes the lead.
func leading(t *testing.T, open Opener) (s store.Store, epoch uint64) {
	t.Helper()
	s = opened(t, open)
	return s, lead(t, s, 0).Epoch
}

func lead(t *testing.T, s store.Store, atLeast uint64) store.Meta {
	t.Helper()
	meta, err := s.Lead(t.Context(), atLeast)
	if err != nil {
		t.Fatalf("lead: %v", err)
	}
	return meta
}

func commit(t *testing.T, s store.Store, epoch uint64, c ledger.Changes) {
	t.Helper()
	if err := s.Commit(t.Context(), store.Batch{Epoch: epoch, Changes: c}); err != nil {
		t.Fatalf("commit: %v", err)
	}
}

// transitions makes the changes of a batch.
func transitions(list ...ledger.Allocation) ledger.Changes {
	var c ledger.Changes
	for _, a := range list {
		c.Revision, c.LastID = max(c.Revision, a.Revision), max(c.LastID, a.ID)
	}
	c.Transitions = list
	return c
}

// tester is the common part of a test and a step of a property.
type tester interface {
	Helper()
	Context() context.Context
	Fatalf(format string, args ...any)
}

// wantLoad compares a load with the model.
func wantLoad(t tester, s store.Store, epoch uint64, m *model, since ledger.Instant) {
	t.Helper()
	got, err := s.Load(t.Context(), epoch, since.Time(), nil)
	if err != nil {
		t.Fatalf("load: %v", err)
	}
	if diff := difference(m.snapshot(since), sorted(got)); diff != "" {
		t.Fatalf("loaded (-want +got):\n%s", diff)
	}
	var taken []ledger.Allocation
	got, err = s.Load(t.Context(), epoch, since.Time(), func(_ *ledger.Snapshot, rows []ledger.Allocation) error {
		taken = append(taken, rows...)
		clear(rows) // the test must not keep them
		return nil
	})
	if err != nil || len(got.Allocations) > 0 {
		t.Fatalf("taken: %v; %d rows in the snapshot", err, len(got.Allocations))
	}
	got.Allocations = taken
	if diff := difference(m.snapshot(since), sorted(got)); diff != "" {
		t.Fatalf("taken (-want +got):\n%s", diff)
	}
}

func wantError(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("got error %v, want %v", err, want)
	}
}

func testNew(t *testing.T, open Opener) {
	s := open(t)
	meta := lead(t, s, 0)
	if meta.StoreID == "" || meta.Schema == 0 || meta.Epoch != 1 || meta.Sequence != 0 || meta.LastID != 0 {
		t.Errorf("a new store: %+v", meta)
	}
	wantLoad(t, s, meta.Epoch, newModel(), 0)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	meta.SealKeys = "" // only for a leader
	again, err := opened(t, open).Meta(t.Context())
	if err != nil || again != meta {
		t.Errorf("reopened: %+v, %v; want %+v", again, err, meta)
	}
}

func testLead(t *testing.T, open Opener) {
	s := open(t)
	for _, step := range []struct{ atLeast, want uint64 }{{0, 1}, {0, 2}, {2, 3}, {10, 10}, {10, 11}, {1 << 40, 1 << 40}, {3, 1<<40 + 1}} {
		if got := lead(t, s, step.atLeast).Epoch; got != step.want {
			t.Fatalf("lead at least %d: epoch %d, want %d", step.atLeast, got, step.want)
		}
	}
	if _, err := s.Lead(t.Context(), 1<<64-1); err == nil {
		t.Error("an epoch that no number can follow was taken")
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = opened(t, open)
	if got := lead(t, s, 0).Epoch; got != 1<<40+2 {
		t.Errorf("reopened: epoch %d", got)
	}
}

func testFence(t *testing.T, open Opener) {
	s, old := leading(t, open)
	m := newModel()
	c := transitions(Typical(1, ledger.Active, 1))
	commit(t, s, old, c)
	m.commit(c)
	epoch := lead(t, s, 0).Epoch

	for _, stale := range []uint64{0, old, epoch + 1} {
		for _, c := range []ledger.Changes{
			transitions(Typical(2, ledger.Active, 2)),
			{Revision: 2, Hosts: []ledger.HostRecord{{ID: "h"}}},
			{Revision: 2, HostsRemoved: []string{"h"}},
			{},
		} {
			wantError(t, s.Commit(t.Context(), store.Batch{Epoch: stale, Changes: c}), store.ErrDeposed)
		}
		_, err := s.Load(t.Context(), stale, time.Time{}, nil)
		wantError(t, err, store.ErrDeposed)
	}
	wantLoad(t, s, epoch, m, 0)
	// the leader is not harmed
	commit(t, s, epoch, transitions(Typical(2, ledger.Active, 2)))
}

func testNobodyLeads(t *testing.T, open Opener) {
	s := opened(t, open)
	for epoch := range uint64(2) {
		for _, c := range []ledger.Changes{{}, transitions(Typical(1, ledger.Active, 1))} {
			wantError(t, s.Commit(t.Context(), store.Batch{Epoch: epoch, Changes: c}), store.ErrDeposed)
		}
	}
}

func testReopenedEpoch(t *testing.T, open Opener) {
	s := open(t)
	epoch := lead(t, s, 0).Epoch
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = opened(t, open)
	wantError(t, s.Commit(t.Context(), store.Batch{Epoch: epoch, Changes: transitions(Typical(1, ledger.Active, 1))}), store.ErrDeposed)
}

func testAtomic(t *testing.T, open Opener) {
	unwritable := Typical(3, ledger.State(99), 3)
	s, epoch := leading(t, open)
	m := newModel()
	c := transitions(Typical(1, ledger.Active, 1))
	c.Hosts = []ledger.HostRecord{{ID: "h1", Version: "1"}}
	commit(t, s, epoch, c)
	m.commit(c)

	c = transitions(Typical(1, ledger.Released, 2), Typical(2, ledger.Active, 3), unwritable, Typical(4, ledger.Active, 4))
	c.HostsRemoved = []string{"h1"}
	err := s.Commit(t.Context(), store.Batch{Epoch: epoch, Changes: c})
	var row *store.RowError
	if !errors.As(err, &row) || row.Table != store.AllocationTable || row.Key != unwritable.ID.String() {
		t.Fatalf("got %v, want the row that cannot be written", err)
	}
	if errors.Is(err, store.ErrUnknownOutcome) {
		t.Errorf("%v: the outcome is known", err)
	}
	wantLoad(t, s, lead(t, s, 0).Epoch, m, 0)
}

func testFailureEndsEpoch(t *testing.T, open Opener) {
	s, epoch := leading(t, open)
	if err := s.Commit(t.Context(), store.Batch{Epoch: epoch, Changes: transitions(Typical(1, 0, 1))}); err == nil {
		t.Fatal("committed a row without a state")
	}
	for _, c := range []ledger.Changes{transitions(Typical(2, ledger.Active, 2)), {}} {
		wantError(t, s.Commit(t.Context(), store.Batch{Epoch: epoch, Changes: c}), store.ErrDeposed)
	}
	epoch = lead(t, s, 0).Epoch
	commit(t, s, epoch, transitions(Typical(3, ledger.Active, 3)))
	// A failure in an ended epoch does not end the current one.
	wantError(t, s.Commit(t.Context(), store.Batch{Epoch: epoch - 1, Changes: transitions(Typical(4, ledger.Active, 4))}), store.ErrDeposed)
	commit(t, s, epoch, ledger.Changes{})
}

func testEmptyBatch(t *testing.T, open Opener) {
	s, epoch := leading(t, open)
	commit(t, s, epoch, transitions(Typical(1, ledger.Active, 7)))
	commit(t, s, epoch, ledger.Changes{Revision: 7, LastID: 1})
	meta, err := s.Meta(t.Context())
	if err != nil || meta.Sequence != 7 || meta.Epoch != epoch {
		t.Errorf("%+v, %v", meta, err)
	}
}

func testKeepTime(t *testing.T, open Opener) {
	s, epoch := leading(t, open)
	c := transitions(Typical(1, ledger.Active, 7))
	c.Time = 1000
	commit(t, s, epoch, c)
	alone := ledger.Changes{Revision: 7, LastID: 1, Time: 2000}
	if err := s.Commit(t.Context(), store.Batch{Epoch: epoch, Changes: alone, KeepTime: true}); err != nil {
		t.Fatal(err)
	}
	// an epoch check writes nothing
	commit(t, s, epoch, ledger.Changes{Revision: 7, LastID: 1, Time: 3000})
	if meta, err := s.Meta(t.Context()); err != nil || meta.Time != 2000 || meta.Sequence != 7 {
		t.Errorf("%+v, %v; want time 2000", meta, err)
	}
	led := lead(t, s, 0)
	if snapshot, err := s.Load(t.Context(), led.Epoch, time.Time{}, nil); err != nil || led.Time != 2000 || snapshot.Time != 2000 {
		t.Errorf("led at %d, loaded %d, %v; want time 2000", led.Time, snapshot.Time, err)
	}
	late := store.Batch{Epoch: epoch, Changes: alone, KeepTime: true}
	wantError(t, s.Commit(t.Context(), late), store.ErrDeposed)
}

func testClosed(t *testing.T, open Opener) {
	s, epoch := leading(t, open)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	_, err := s.Lead(t.Context(), 0)
	wantError(t, err, store.ErrClosed)
	_, err = s.Load(t.Context(), epoch, time.Time{}, nil)
	wantError(t, err, store.ErrClosed)
	wantError(t, s.Commit(t.Context(), store.Batch{Epoch: epoch}), store.ErrClosed)
	wantError(t, s.Commit(t.Context(), store.Batch{Epoch: epoch, Changes: transitions(Typical(1, ledger.Active, 1))}), store.ErrClosed)
	_, err = s.Get(t.Context(), 1)
	wantError(t, err, store.ErrClosed)
	_, err = s.GetByRequest(t.Context(), "c", "r")
	wantError(t, err, store.ErrClosed)
	_, _, err = s.History(t.Context(), store.HistoryQuery{})
	wantError(t, err, store.ErrClosed)
	_, err = s.Ends(t.Context(), store.Position{}, 1)
	wantError(t, err, store.ErrClosed)
	_, err = s.Delete(t.Context(), []store.Position{{Ended: 1, ID: 1}})
	wantError(t, err, store.ErrClosed)
	_, err = s.IndexHistory(t.Context(), epoch, 1, 1)
	wantError(t, err, store.ErrClosed)
	_, _, err = s.SweepIndex(t.Context(), store.IndexBegin(), 1, 1)
	wantError(t, err, store.ErrClosed)
	_, err = s.Meta(t.Context())
	wantError(t, err, store.ErrClosed)
}
