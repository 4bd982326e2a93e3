package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bursar/bursar/coordinator"
	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/store/sqlite"
	"github.com/bursar/bursar/internal/identity"
	"github.com/bursar/bursar/label"
	"github.com/bursar/bursar/resource"
)

// system is called by a closed loop. Its methods are called by many goroutines.
type system interface {
	allocate(ctx context.Context, c ledger.AllocateCommand) (ledger.ID, error)
	release(ctx context.Context, id ledger.ID) error
	close() error
}

// lockedLedger is a ledger in memory, behind a lock.
type lockedLedger struct {
	mu     sync.Mutex
	filled *filledLedger // guarded by mu
	start  time.Time
	began  ledger.Instant
}

func newLockedLedger(w *workload, hosts int) (*lockedLedger, error) {
	b, err := newFilledLedger(w, hosts)
	if err != nil {
		return nil, err
	}
	return &lockedLedger{filled: b, start: time.Now(), began: b.now}, nil
}

func (s *lockedLedger) allocate(_ context.Context, c ledger.AllocateCommand) (ledger.ID, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.filled.now = s.began.Add(time.Since(s.start))
	return s.filled.allocate(c)
}

func (s *lockedLedger) release(_ context.Context, id ledger.ID) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.filled.release(id)
}

func (s *lockedLedger) close() error { return s.filled.audit() }

// durable is a coordinator's write path. Every commit is on disk before the answer.
type durable struct {
	local coordinator.Local
	stop  context.CancelFunc
	ended chan error
}

func newDurable(ctx context.Context, w *workload, hosts int, dir string) (*durable, error) {
	store, err := sqlite.Open(ctx, filepath.Join(dir, "bursar.db"), sqlite.Options{})
	if err != nil {
		return nil, err
	}
	config := coordinator.Config{Listen: "127.0.0.1:0", Times: coordinator.Times{Interval: 1000 * time.Hour}}
	server, err := coordinator.New(config, coordinator.Dependencies{Store: store})
	if err != nil {
		return nil, errors.Join(err, store.Close())
	}
	ctx, cancel := context.WithCancel(ctx)
	s := &durable{local: server.Local(), stop: cancel, ended: make(chan error, 1)}
	go func() { s.ended <- server.Run(ctx) }()
	select {
	case <-server.Ready():
	case err := <-s.ended:
		cancel()
		return nil, err
	}
	if err := s.populate(ctx, w, hosts); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

func (s *durable) populate(ctx context.Context, w *workload, hosts int) error {
	capacity, err := w.Host.vector()
	if err != nil {
		return err
	}
	quotas, err := w.quotas()
	if err != nil {
		return err
	}
	var failed error
	err = s.local.Do(ctx, func(l *ledger.Ledger, now ledger.Instant) {
		failed = l.SetQuotas(now, ledger.SourceAPI, quotas)
		for i := range hosts {
			failed = errors.Join(failed, addHost(l, now, hostName(i), capacity, nil))
		}
	})
	return errors.Join(err, failed)
}

func (s *durable) allocate(ctx context.Context, c ledger.AllocateCommand) (ledger.ID, error) {
	r, err := s.local.Allocate(ctx, c)
	return r.Allocation.ID, err
}

func (s *durable) release(ctx context.Context, id ledger.ID) error {
	var failed error
	err := s.local.Do(ctx, func(l *ledger.Ledger, now ledger.Instant) {
		_, failed = l.Release(now, ledger.ReleaseCommand{Actor: launcher(), ID: id})
	})
	return errors.Join(err, failed)
}

func (s *durable) close() error {
	s.stop()
	return <-s.ended
}

func launcher() identity.Actor { return identity.Actor{Name: "launcher@host", Anyone: true} }

// result is the result of a turn: the number of pairs, and the latencies of their Allocates,
// shortest first.
type result struct {
	pairs     int
	took      time.Duration
	latencies []time.Duration
	calls     []span // over the wire: the Allocates
}

// span is the time of one Allocate.
type span struct {
	began time.Time
	took  time.Duration
}

func (r *result) rate() float64 { return float64(r.pairs) / r.took.Seconds() }

// closedTurn makes so many clients run pairs for this time.
func closedTurn(ctx context.Context, s system, sets []label.Set, request resource.Resource, clients int, lasts time.Duration) (*result, error) {
	var over atomic.Bool
	timer := time.AfterFunc(lasts, func() { over.Store(true) })
	defer timer.Stop()
	latencies := make([][]time.Duration, clients)
	failures := make([]error, clients)
	prefix := strconv.FormatInt(time.Now().UnixNano(), 36)
	var group sync.WaitGroup
	start := time.Now()
	for n := range clients {
		group.Go(func() {
			for i := 0; !over.Load(); i++ {
				c := ledger.AllocateCommand{
					Actor: launcher(), RequestID: prefix + "-" + strconv.Itoa(n) + "-" + strconv.Itoa(i), Labels: sets[n%len(sets)], Resource: request,
				}
				began := time.Now()
				id, err := s.allocate(ctx, c)
				latencies[n] = append(latencies[n], time.Since(began))
				if err == nil {
					err = s.release(ctx, id)
				}
				if err != nil {
					failures[n] = err
					return
				}
			}
		})
	}
	group.Wait()
	all := slices.Concat(latencies...)
	slices.Sort(all)
	return &result{pairs: len(all), took: time.Since(start), latencies: all}, errors.Join(failures...)
}

// closedLoop runs the closed loop of workloads/closed-loop.yaml on both systems.
func closedLoop(ctx context.Context, r *run) error {
	w, err := readWorkload("closed-loop")
	if err != nil {
		return err
	}
	for _, hosts := range w.Fleets {
		if err := r.closedLoopOn(ctx, w, hosts); err != nil {
			return err
		}
	}
	return nil
}

func (r *run) closedLoopOn(ctx context.Context, w *workload, hosts int) (err error) {
	dir := filepath.Join(r.dir, fmt.Sprintf("closed-%d", hosts))
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("a place for the store: %w", err)
	}
	inMemory, err := newLockedLedger(w, hosts)
	if err != nil {
		return err
	}
	onDisk, err := newDurable(ctx, w, hosts, dir)
	if err != nil {
		return err
	}
	systems := []struct {
		name string
		system
	}{{"ledger", inMemory}, {"durable", onDisk}}
	defer func() { err = errors.Join(err, inMemory.close(), onDisk.close()) }()
	sets, err := w.sets()
	if err != nil {
		return err
	}
	request, err := w.request()
	if err != nil {
		return err
	}
	for _, s := range systems {
		var one float64
		for _, clients := range w.Clients {
			var rates, p50, p99 []float64
			for range r.rounds(w.Rounds) {
				turn, err := closedTurn(ctx, s, sets, request, clients, r.period(w.Duration))
				if err != nil {
					return err
				}
				rates = append(rates, turn.rate())
				p50 = append(p50, percentile(turn.latencies, 0.5))
				p99 = append(p99, percentile(turn.latencies, 0.99))
			}
			if one == 0 {
				one = median(rates)
			}
			name := fmt.Sprintf("closed/%s-%dx%d", s.name, hosts, clients)
			r.line(name, median(rates), "pairs/s", 0)
			r.line(name+"-p50", median(p50), "µs", 0)
			r.line(name+"-p99", median(p99), "µs", 0)
		}
	}
	return nil
}
