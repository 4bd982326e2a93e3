package storetest_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/store"
	"github.com/bursar/bursar/coordinator/store/storetest"
)

// one is a batch that puts a host of that name.
func one(epoch uint64, host string) store.Batch {
	return store.Batch{Epoch: epoch, Changes: ledger.Changes{Revision: 1, Hosts: []ledger.HostRecord{{ID: host}}}}
}

// hosts takes the lead and counts the hosts.
func hosts(t *testing.T, s store.Store) int {
	t.Helper()
	meta, err := s.Lead(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	snapshot, err := s.Load(t.Context(), meta.Epoch, time.Time{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return len(snapshot.Hosts)
}

func TestFaults(t *testing.T) {
	for _, c := range []struct {
		name     string
		fault    storetest.Fault
		unknown  bool
		happened int
	}{
		{"fails before", storetest.FailBefore, false, 0},
		{"fails after", storetest.FailAfter, true, 1},
		{"vanishes", storetest.Vanish, true, 0},
		{"cut", storetest.Cut, true, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := storetest.NewFaulty(storetest.NewMemory("m").Open())
			hosts(t, f)
			f.Next(c.fault)
			err := f.Commit(t.Context(), one(1, "h"))
			if !errors.Is(err, storetest.ErrFault) || errors.Is(err, store.ErrUnknownOutcome) != c.unknown {
				t.Fatalf("got %v", err)
			}
			if _, err := f.Meta(t.Context()); (err != nil) != (c.fault == storetest.Cut) {
				t.Errorf("reading: %v", err)
			}
			f.Mend()
			if err := f.Commit(t.Context(), one(1, "i")); !errors.Is(err, store.ErrDeposed) {
				t.Errorf("the epoch goes on: %v", err)
			}
			if n := hosts(t, f); n != c.happened {
				t.Errorf("%d hosts, want %d", n, c.happened)
			}
			if err := f.Commit(t.Context(), one(2, "j")); err != nil || f.Pending() != 0 {
				t.Errorf("the next epoch: %v, %d faults left", err, f.Pending())
			}
		})
	}
}

func TestHangUntilReleased(t *testing.T) {
	for fault, early := range map[storetest.Fault]int{storetest.HangBefore: 0, storetest.HangAfter: 1} {
		synctest.Test(t, func(t *testing.T) {
			place := storetest.NewMemory("m")
			f := storetest.NewFaulty(place.Open())
			hosts(t, f)
			f.Next(fault)
			done := make(chan error)
			go func() { done <- f.Commit(t.Context(), one(1, "h")) }()
			<-f.Hanging()
			synctest.Wait()
			snapshot, err := f.Load(t.Context(), 1, time.Time{}, nil)
			if err != nil || len(snapshot.Hosts) != early {
				t.Errorf("while it hangs: %d hosts, %v; want %d", len(snapshot.Hosts), err, early)
			}
			f.Release()
			if err := <-done; err != nil {
				t.Error(err)
			}
			if n := hosts(t, f); n != 1 {
				t.Errorf("%d hosts", n)
			}
		})
	}
}

func TestHangUntilDeposed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		place := storetest.NewMemory("m")
		f, other := storetest.NewFaulty(place.Open()), place.Open()
		hosts(t, f)
		f.Next(storetest.HangBefore)
		done := make(chan error)
		go func() { done <- f.Commit(t.Context(), one(1, "h")) }()
		<-f.Hanging()
		hosts(t, other)
		f.Release()
		if err := <-done; !errors.Is(err, store.ErrDeposed) {
			t.Errorf("a leader that was paused: %v", err)
		}
		if n := hosts(t, other); n != 0 {
			t.Errorf("%d hosts", n)
		}
	})
}

func TestHangUntilGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := storetest.NewFaulty(storetest.NewMemory("m").Open())
		hosts(t, f)
		f.Next(storetest.HangBefore)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := f.Commit(ctx, one(1, "h")); !errors.Is(err, store.ErrUnknownOutcome) {
			t.Errorf("got %v", err)
		}
		if n := hosts(t, f); n != 0 {
			t.Errorf("%d hosts", n)
		}
	})
}
