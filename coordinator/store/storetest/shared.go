package storetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/store"
)

// RunShared tests a store that several coordinators have open at the same time: one leads, the
// others stand by. fresh is as in Run; the function that it returns opens any number of stores at
// one place.
func RunShared(t *testing.T, fresh func(t *testing.T) Opener) {
	t.Helper()
	for _, c := range []struct {
		name string
		run  func(*testing.T, Opener)
	}{
		{"all that are open are one store", testOneStore},
		{"who takes the lead deposes the one before", testDeposed},
		{"a commit during a change of leader is loaded or refused", testTakeover},
		{"of many who take the lead each gets an epoch of its own", testManyLead},
		{"those that stand by read what is committed", testStandbyReads},
		{"the leader deletes during others' commits", testDeleteBeside},
		{"those that stand by read what has changed, and nothing else", testFollow},
	} {
		t.Run(c.name, func(t *testing.T) { c.run(t, fresh(t)) })
	}
	t.Run("those that stand by have what is committed", func(t *testing.T) { testFollowModel(t, fresh) })
}

func testOneStore(t *testing.T, open Opener) {
	a, b := opened(t, open), opened(t, open)
	first, err := a.Meta(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	second, err := b.Meta(t.Context())
	if err != nil || first != second || first.StoreID == "" {
		t.Errorf("%+v and %+v, %v", first, second, err)
	}
}

func testDeposed(t *testing.T, open Opener) {
	a, b := opened(t, open), opened(t, open)
	for _, c := range []ledger.Changes{{}, transitions(Typical(2, ledger.Active, 2)), {Revision: 2, HostsRemoved: []string{"h"}}} {
		old := lead(t, a, 0).Epoch
		commit(t, a, old, transitions(Typical(1, ledger.Active, 1)))
		epoch := lead(t, b, 0).Epoch
		if epoch <= old {
			t.Fatalf("epoch %d after %d", epoch, old)
		}
		err := a.Commit(t.Context(), store.Batch{Epoch: old, Changes: c})
		wantError(t, err, store.ErrDeposed)
		var deposed *store.DeposedError
		if !errors.As(err, &deposed) || deposed.Epoch != old || deposed.Stored != epoch {
			t.Errorf("%v: want it to name %d and %d", err, old, epoch)
		}
		// not its own
		wantError(t, a.Commit(t.Context(), store.Batch{Epoch: epoch, Changes: c}), store.ErrDeposed)
		_, err = a.Load(t.Context(), old, time.Time{}, nil)
		wantError(t, err, store.ErrDeposed)
		m := newModel()
		m.commit(transitions(Typical(1, ledger.Active, 1)))
		wantLoad(t, b, epoch, m, 0)
		commit(t, b, epoch, ledger.Changes{}) // the leader is not harmed
	}
}

// testTakeover makes one store commit as fast as it can while the other takes the lead: every
// acknowledged commit is in the load of the other one, and after that nothing changes.
func testTakeover(t *testing.T, open Opener) {
	const rounds = 40
	stores := []store.Store{opened(t, open), opened(t, open)}
	revision := uint64(0)
	for round := range rounds {
		leader, next := stores[round%2], stores[(round+1)%2]
		epoch := lead(t, leader, 0).Epoch
		begun := make(chan struct{})
		begin := sync.OnceFunc(func() { close(begun) })
		var acknowledged uint64
		var failed error
		var committing sync.WaitGroup
		committing.Go(func() {
			for {
				revision++
				err := leader.Commit(t.Context(), store.Batch{Epoch: epoch, Changes: takeoverBatch(revision)})
				if err != nil {
					failed = err
					return
				}
				acknowledged = revision
				begin()
			}
		})
		<-begun
		taken := lead(t, next, 0)
		snapshot, err := next.Load(t.Context(), taken.Epoch, time.Time{}, nil)
		committing.Wait()
		wantError(t, failed, store.ErrDeposed)
		again, againErr := next.Load(t.Context(), taken.Epoch, time.Time{}, nil)
		if err := errors.Join(err, againErr, takeoverWhole(snapshot)); err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		if snapshot.Revision != acknowledged || taken.Sequence != acknowledged {
			t.Fatalf("round %d: acknowledged %d, led at %d, loaded %d", round, acknowledged, taken.Sequence, snapshot.Revision)
		}
		if diff := difference(sorted(snapshot), sorted(again)); diff != "" {
			t.Fatalf("round %d: the deposed leader has written (-before +after):\n%s", round, diff)
		}
		revision = acknowledged
	}
}

// takeoverBatch moves two allocations and a host to a revision, so that half a batch would show.
func takeoverBatch(revision uint64) ledger.Changes {
	c := transitions(Typical(1, ledger.Active, revision), Typical(2, ledger.Active, revision))
	c.Hosts = []ledger.HostRecord{{ID: "h", Revision: revision}}
	return c
}

// takeoverWhole checks that a snapshot is the state after one batch.
func takeoverWhole(s ledger.Snapshot) error {
	if len(s.Allocations) != 2 || len(s.Hosts) != 1 {
		return fmt.Errorf("%d allocations, %d hosts", len(s.Allocations), len(s.Hosts))
	}
	for _, revision := range []uint64{s.Allocations[0].Revision, s.Allocations[1].Revision, s.Hosts[0].Revision} {
		if revision != s.Revision {
			return fmt.Errorf("a row at revision %d in a snapshot of %d", revision, s.Revision)
		}
	}
	return nil
}

func testManyLead(t *testing.T, open Opener) {
	const stores, times = 4, 10
	var epochs sync.Map
	var leading sync.WaitGroup
	for range stores {
		s := opened(t, open)
		leading.Go(func() {
			last := uint64(0)
			for range times {
				meta, err := s.Lead(t.Context(), 0)
				if _, twice := epochs.LoadOrStore(meta.Epoch, true); err != nil || twice || meta.Epoch <= last {
					t.Errorf("epoch %d after %d, twice: %v, %v", meta.Epoch, last, twice, err)
				}
				last = meta.Epoch
			}
		})
	}
	leading.Wait()
}

func testStandbyReads(t *testing.T, open Opener) {
	leader, epoch := leading(t, open)
	standby := opened(t, open)
	live, ended := Typical(1, ledger.Active, 1), Typical(2, ledger.Released, 2)
	commit(t, leader, epoch, transitions(live, ended))
	for _, want := range []ledger.Allocation{live, ended} {
		got, err := standby.Get(t.Context(), want.ID)
		if diff := difference(want, got); err != nil || diff != "" {
			t.Errorf("%v (-want +got):\n%s", err, diff)
		}
		if got, err = standby.GetByRequest(t.Context(), want.Caller, want.RequestID); err != nil || got.ID != want.ID {
			t.Errorf("by request: %s, %v", got.ID, err)
		}
	}
	if page, _, err := standby.History(t.Context(), store.HistoryQuery{}); err != nil || len(page) != 1 || page[0].ID != ended.ID {
		t.Errorf("history: %d, %v", len(page), err)
	}
	if meta, err := standby.Meta(t.Context()); err != nil || meta.Epoch != epoch || meta.Sequence != 2 {
		t.Errorf("meta: %+v, %v", meta, err)
	}
	for _, e := range []uint64{epoch, epoch + 1} { // a read does not make it lead
		wantError(t, standby.Commit(t.Context(), store.Batch{Epoch: e}), store.ErrDeposed)
	}
	commit(t, leader, epoch, ledger.Changes{})
}

// testDeleteBeside deletes an allocation from the history while it is adopted again: it is deleted
// or live, and never lost from both.
func testDeleteBeside(t *testing.T, open Opener) {
	leader, epoch := leading(t, open)
	other := opened(t, open)
	ended := Typical(1, ledger.Lost, 1)
	for round := range 50 {
		commit(t, leader, epoch, transitions(ended))
		var deleting sync.WaitGroup
		deleting.Go(func() {
			if _, err := other.Delete(context.WithoutCancel(t.Context()), []store.Position{{Ended: ended.Ended, ID: ended.ID}}); err != nil {
				t.Error(err)
			}
		})
		commit(t, leader, epoch, transitions(Typical(1, ledger.Active, 2)))
		deleting.Wait()
		if a, err := leader.Get(t.Context(), 1); err != nil || a.State != ledger.Active {
			t.Fatalf("round %d: %s, %v", round, a.State, err)
		}
	}
}
