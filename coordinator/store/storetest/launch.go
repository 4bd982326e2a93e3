package storetest

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/store"
)

// testLaunch puts, reads and removes rows of launches. Loads of a store do not contain them.
func testLaunch(t *testing.T, open Opener) {
	s, epoch := leading(t, open)
	spec := bytes.Repeat([]byte("a\x00\xffb"), 16<<10) // any bytes, 64 KiB
	a := Typical(7, ledger.Waiting, 1)
	commit(t, s, epoch, ledger.Changes{Revision: 1, LastID: 7, Transitions: []ledger.Allocation{a}, Launches: []ledger.LaunchRow{{ID: 7, Spec: spec}, {ID: ^ledger.ID(0), Spec: []byte("x")}}})
	for id, want := range map[ledger.ID][]byte{7: spec, ^ledger.ID(0): []byte("x")} {
		if got, err := s.Launch(t.Context(), id); err != nil || !bytes.Equal(got, want) {
			t.Errorf("launch %v: %d bytes, %v; want %d", id, len(got), err, len(want))
		}
	}
	loaded, err := s.Load(t.Context(), epoch, time.Time{}, nil)
	if err != nil || len(loaded.Allocations) != 1 {
		t.Fatalf("%+v, %v", loaded, err)
	}
	if _, err := s.Launch(t.Context(), 8); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a launch that is not there: %v", err)
	}
	// One that is put and removed in one batch does not exist: the request was refused at once.
	commit(t, s, epoch, ledger.Changes{Revision: 2, LastID: 9, LaunchesRemoved: []ledger.ID{7, 9}, Launches: []ledger.LaunchRow{{ID: 9, Spec: spec}}})
	for _, id := range []ledger.ID{7, 9} {
		if _, err := s.Launch(t.Context(), id); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("launch %v, which was removed: %v", id, err)
		}
	}
	if got, err := s.Launch(t.Context(), ^ledger.ID(0)); err != nil || string(got) != "x" {
		t.Errorf("the other one: %q, %v", got, err)
	}
}
