package coordinator

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/store"
)

// pruneStore has a history of some allocations that are too old.
type pruneStore struct {
	store.Store

	mu    sync.Mutex
	old   int       // guarded by mu, like all below
	fail  bool      // the next call
	steps []int     // what was pruned
	until time.Time // of the last one
}

func (s *pruneStore) seen() (steps []int, until time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.steps), s.until
}

func (s *pruneStore) Prune(_ context.Context, before time.Time, limit int) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
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
		config := Config{}.WithDefaults()
		w := newWriter(NewCore(ledger.Config{}, nil, drawLeadership), s, newSteady(&wallClock{start: time.Now()}), &config, newFeed(1), newMeter(prometheus.NewRegistry()), slog.New(slog.DiscardHandler))
		history := History{Retention: 30 * 24 * time.Hour, PruneEvery: time.Minute, PruneStep: 10}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			prune(ctx, w, history)
		}()
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if !s.fail {
			t.Error("a coordinator that does not lead has pruned")
		}
		w.leads.Store(true)
		time.Sleep(time.Minute + time.Second)
		synctest.Wait()
		if steps, _ := s.seen(); len(steps) != 0 {
			t.Errorf("steps %v after a failure: want to wait", steps)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		steps, until := s.seen()
		if diff := cmp.Diff([]int{10, 10, 3}, steps); diff != "" {
			t.Error(diff)
		}
		if want := time.Now().Add(-30*24*time.Hour - time.Second); !until.Equal(want) {
			t.Errorf("pruned what ended before %s: want %s", until, want)
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
