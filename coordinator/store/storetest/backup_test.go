package storetest_test

import (
	"errors"
	"testing"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/store"
	"github.com/bursar/bursar/coordinator/store/storetest"
)

// led opens a store and takes the lead.
func led(t *testing.T, place *storetest.Memory) (store.Store, uint64) {
	t.Helper()
	s := place.Open()
	meta, err := s.Lead(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	return s, meta.Epoch
}

func row(id ledger.ID, epoch, revision uint64) store.Batch {
	return store.Batch{Epoch: epoch, Changes: ledger.Changes{
		Revision: revision, LastID: id, Transitions: []ledger.Allocation{storetest.Typical(id, ledger.Active, revision)},
	}}
}

// A database that was restored under its leader, or replaced by a lagging replica, has the leader's
// epoch but not its rows.
func TestALeaderNoticesThatTheStoreWasPutBack(t *testing.T) {
	place := storetest.NewMemory("memory")
	s, epoch := led(t, place)
	backup := place.Copy("memory")
	if err := s.Commit(t.Context(), row(1, epoch, 1)); err != nil {
		t.Fatal(err)
	}
	place.Restore(backup)
	for _, batch := range []store.Batch{{Epoch: epoch}, row(2, epoch, 2)} {
		if err := s.Commit(t.Context(), batch); !errors.Is(err, store.ErrDeposed) {
			t.Errorf("a commit on top of what is gone: %v", err)
		}
	}
}

// A restored store issues its epochs again. A leader that was paused in the first of two epochs
// with the same number must not write in the second.
func TestAnEpochThatIsGivenOutTwice(t *testing.T) {
	place := storetest.NewMemory("memory")
	backup := place.Copy("memory")
	stopped, first := led(t, place)
	if err := stopped.Commit(t.Context(), row(1, first, 1)); err != nil {
		t.Fatal(err)
	}
	place.Restore(backup)
	leads, second := led(t, place)
	if first != second {
		t.Fatalf("epochs %d and %d", first, second)
	}
	for _, batch := range []store.Batch{{Epoch: first}, row(2, first, 2)} {
		if err := stopped.Commit(t.Context(), batch); !errors.Is(err, store.ErrDeposed) {
			t.Errorf("a commit of the first epoch %d: %v", first, err)
		}
	}
	if err := leads.Commit(t.Context(), row(3, second, 1)); err != nil {
		t.Errorf("a commit of the second: %v", err)
	}
	// Both are at the same sequence by now.
	for _, batch := range []store.Batch{{Epoch: first}, row(2, first, 2)} {
		if err := stopped.Commit(t.Context(), batch); !errors.Is(err, store.ErrDeposed) {
			t.Errorf("a commit of the first epoch %d when the second is at the same sequence: %v", first, err)
		}
	}
}
