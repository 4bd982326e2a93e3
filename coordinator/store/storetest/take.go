package storetest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/store"
)

// testTake tests the promises of Load about take, with more rows than are read ahead.
func testTake(t *testing.T, open Opener) {
	s, epoch := leading(t, open)
	m := newModel()
	wantTaken(t, s, epoch, 0)
	const batches, rows = 5, 1000
	for batch := range batches {
		var list []ledger.Allocation
		for i := range rows {
			list = append(list, Typical(ledger.ID(1+batch*rows+i), ledger.Active, uint64(batch+1)))
		}
		c := transitions(list...)
		c.Hosts = []ledger.HostRecord{{ID: "h"}}
		commit(t, s, epoch, c)
		m.commit(c)
	}
	wantLoad(t, s, epoch, m, 0)
	wantTaken(t, s, epoch, batches*rows)

	// interrupted loads until some rows were taken, and then calls interrupt.
	interrupted := func(ctx context.Context, want error, interrupt func() error) {
		taken := 0
		_, err := s.Load(ctx, epoch, time.Time{}, func(rest *ledger.Snapshot, rows []ledger.Allocation) error {
			if len(rest.Hosts) != 1 || rest.Revision == 0 {
				t.Errorf("%v: taken before the rest was there: %+v", want, rest)
			}
			if taken += len(rows); taken < 500 {
				return nil
			}
			return interrupt()
		})
		if !errors.Is(err, want) || taken >= batches*rows {
			t.Errorf("%v, after %d rows; want %v, and not all", err, taken, want)
		}
	}
	enough := errors.New("enough")
	interrupted(t.Context(), enough, func() error { return enough })
	ctx, end := context.WithCancel(t.Context())
	interrupted(ctx, context.Canceled, func() error {
		end()
		return nil
	})
	if _, err := s.Load(t.Context(), epoch+1, time.Time{}, func(*ledger.Snapshot, []ledger.Allocation) error {
		t.Error("rows of another epoch are taken")
		return nil
	}); !errors.Is(err, store.ErrDeposed) {
		t.Errorf("another epoch: %v; want %v", err, store.ErrDeposed)
	}
}

// wantTaken counts the taken rows. The first list, and only that one, is empty.
func wantTaken(t *testing.T, s store.Store, epoch uint64, want int) {
	t.Helper()
	begins, taken := 0, 0
	_, err := s.Load(t.Context(), epoch, time.Time{}, func(_ *ledger.Snapshot, rows []ledger.Allocation) error {
		if len(rows) == 0 {
			begins++
		} else if begins != 1 {
			t.Errorf("rows are taken after %d empty lists; want 1", begins)
		}
		taken += len(rows)
		return nil
	})
	if err != nil || begins != 1 || taken != want {
		t.Errorf("%d rows, %d empty lists, %v; want %d and 1", taken, begins, err, want)
	}
}
