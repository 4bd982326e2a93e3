package storetest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/store"
)

// testTake holds what Load promises of take, with more rows than are read ahead.
func testTake(t *testing.T, open Opener) {
	s, epoch := leading(t, open)
	m := newModel()
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

	enough := errors.New("enough")
	ended, end := context.WithCancel(t.Context())
	defer end()
	for name, want := range map[string]error{"an error of take": enough, "the context ends": context.Canceled} {
		ctx := t.Context()
		if want == context.Canceled { //nolint:errorlint // it is one of these
			ctx = ended
		}
		taken := 0
		_, err := s.Load(ctx, epoch, time.Time{}, func(rest *ledger.Snapshot, rows []ledger.Allocation) error {
			if len(rest.Hosts) != 1 || rest.Revision == 0 {
				t.Errorf("%s: taken before the rest was there: %+v", name, rest)
			}
			if taken += len(rows); taken < 500 {
				return nil
			}
			if ctx == ended {
				end()
				return nil
			}
			return enough
		})
		if !errors.Is(err, want) || taken >= batches*rows {
			t.Errorf("%s: %v, after %d rows; want %v, and not all", name, err, taken, want)
		}
	}
	if _, err := s.Load(t.Context(), epoch+1, time.Time{}, func(*ledger.Snapshot, []ledger.Allocation) error {
		t.Error("rows of another epoch are taken")
		return nil
	}); !errors.Is(err, store.ErrDeposed) {
		t.Errorf("another epoch: %v; want %v", err, store.ErrDeposed)
	}
}
