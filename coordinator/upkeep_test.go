package coordinator

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/bursar/bursar/coordinator/store"
)

// pruneStore has a history of some allocations that are too old.
type pruneStore struct {
	store.Store

	old   int
	fail  bool
	steps []int
	until time.Time
}

func (s *pruneStore) Prune(_ context.Context, before time.Time, limit int) (int, error) {
	if s.fail {
		s.fail = false
		return 0, errors.New("disk")
	}
	n := min(limit, s.old)
	s.old -= n
	s.steps, s.until = append(s.steps, n), before
	return n, nil
}

func TestTheHistoryIsPrunedInSmallSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &pruneStore{old: 23, fail: true}
		history := History{Retention: 30 * 24 * time.Hour, PruneEvery: time.Minute, PruneStep: 10}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			prune(ctx, s, history, newSteady(&wallClock{start: time.Now()}), newMeter(prometheus.NewRegistry()), slog.New(slog.DiscardHandler))
		}()
		time.Sleep(time.Minute + time.Second)
		synctest.Wait()
		if len(s.steps) != 0 {
			t.Errorf("steps %v after a failure: want to wait", s.steps)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if diff := cmp.Diff([]int{10, 10, 3}, s.steps); diff != "" {
			t.Error(diff)
		}
		if want := time.Now().Add(-30*24*time.Hour - time.Second); !s.until.Equal(want) {
			t.Errorf("pruned what ended before %s: want %s", s.until, want)
		}
		cancel()
		<-ended
	})
}

func TestTheBooksAreAuditedAgainAndAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := runWriter(t, newMemoryStore(), nil)
		defer d.close()
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			auditing(ctx, d.writer)
		}()
		time.Sleep(10*auditEvery + time.Second)
		cancel()
		<-ended
		if n := counterValue(t, d.meter.audits); n != 10 {
			t.Errorf("%v audits in ten minutes: want 10", n)
		}
	})
}

func counterValue(t *testing.T, c prometheus.Collector) float64 {
	t.Helper()
	registry := prometheus.NewRegistry()
	registry.MustRegister(c)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	return families[0].GetMetric()[0].GetCounter().GetValue()
}
