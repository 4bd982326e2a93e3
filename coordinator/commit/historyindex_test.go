package commit

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/store"
)

// indexLog is a store that takes down the calls for its index.
type indexLog struct {
	store.Store

	before []ledger.Instant // of the steps
	left   int              // rows that are not in the index yet
	sweeps int              // steps of sweeps
	most   int              // steps of a sweep
}

func (s *indexLog) IndexHistory(_ context.Context, _ uint64, before ledger.Instant, limit int) (int, error) {
	s.before = append(s.before, before)
	n := min(limit, s.left)
	s.left -= n
	return n, nil
}

func (s *indexLog) SweepIndex(_ context.Context, after store.IndexEntry, _ ledger.Instant, _ int) (store.IndexEntry, bool, error) {
	s.sweeps++
	return after, s.sweeps%s.most == 0, nil
}

// The leader indexes ended allocations in steps, and sweeps the index once a day.
func TestTheLeaderFillsTheIndexOfTheHistory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newHistoryRig(t, HistoryBounds{})
		log := &indexLog{Store: k.loop.Store, left: 3*indexStep + 1, most: 3}
		k.loop.Store = log
		x := &historyIndex{history: k.history}
		k.loop.leads.Store(false)
		if err := x.round(t.Context()); err != nil || len(log.before) != 0 || log.sweeps != 0 {
			t.Fatalf("who does not lead: %d steps, %d of a sweep, %v", len(log.before), log.sweeps, err)
		}
		k.loop.leads.Store(true)
		began := k.loop.Now()
		for range 2 {
			if err := x.round(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if log.left != 0 || len(log.before) != 5 || log.sweeps != 3 {
			t.Errorf("%d are left after %d steps and %d of a sweep; want none after 5 and 3", log.left, len(log.before), log.sweeps)
		}
		if log.before[0] != began.Add(-indexAfter) {
			t.Errorf("it goes up to %d at %d", log.before[0], began)
		}
		time.Sleep(sweepEvery)
		if err := x.round(t.Context()); err != nil || log.sweeps != 6 {
			t.Errorf("a day later: %d steps of sweeps, %v; want 6", log.sweeps, err)
		}
	})
}
