package coordinator

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bursar/bursar/coordinator/core"
	"github.com/bursar/bursar/coordinator/store"
)

// tallyStore counts commits.
type tallyStore struct {
	store.Store

	commits atomic.Int64
}

func (s *tallyStore) Commit(ctx context.Context, b store.Batch) error {
	s.commits.Add(1)
	return s.Store.Commit(ctx, b)
}

// Anybody who can connect may probe, without an identity.
func TestProbesCostNoCommitEach(t *testing.T) {
	s := &tallyStore{Store: newMemoryStore()}
	f := start(t, Config{}, s)
	before, began := s.commits.Load(), time.Now()
	probe := func(method, path, body string) {
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				for range 25 {
					if code, text := f.fetch(method, path, body, "Content-Type", "application/json"); code != http.StatusOK {
						t.Errorf("%s: %d %s", path, code, text)
					}
				}
			})
		}
		all.Wait()
	}
	probe(http.MethodGet, "/healthz", "")
	if n := s.commits.Load() - before; n != 0 {
		t.Errorf("%d commits for 200 GET /healthz", n)
	}
	probe(http.MethodGet, "/readyz", "")
	probe(http.MethodPost, "/grpc.health.v1.Health/Check", "{}")
	if n, most := s.commits.Load()-before, int64(time.Since(began)/probeAge)+1; n == 0 || n > most {
		t.Errorf("%d commits for 400 probes, want 1 to %d", n, most)
	}
}

func TestWhatAProbeFindsIsToldForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked, sick := 0, errors.New("sick")
		answers := []error{nil, sick, nil}
		p := &sharedProbe{clock: core.NewSteady(SystemClock()), ask: func(ctx context.Context) error {
			time.Sleep(time.Second)
			asked++
			return errors.Join(answers[asked-1], ctx.Err())
		}}
		for i, want := range answers {
			results := make(chan error, 10)
			impatient, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			// the others are not to suffer for it
			if err := p.probe(impatient); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("a caller that cannot wait gets %v", err)
			}
			cancel()
			for range cap(results) {
				go func() { results <- p.probe(t.Context()) }()
			}
			for range cap(results) {
				if err := <-results; !errors.Is(err, want) {
					t.Errorf("the %d. time: %v, want %v", i, err, want)
				}
			}
			time.Sleep(probeAge - time.Millisecond)
			if err := p.probe(t.Context()); !errors.Is(err, want) || asked != i+1 {
				t.Errorf("%v after %d probes, want what the %d. found", err, asked, i)
			}
			time.Sleep(time.Millisecond)
		}
	})
}
