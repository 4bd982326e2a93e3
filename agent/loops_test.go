package agent

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/bursar/bursar/agent/statefile"
	"github.com/bursar/bursar/agent/tracker"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/proto/bursar/v1/bursarv1connect"
	"github.com/bursar/bursar/providers/host"
)

// still is a machine on which nothing happens.
type still struct{ Meter }

func (still) Sample(context.Context) host.Sample { return host.Sample{Time: time.Now()} }

func (still) Available(context.Context) (int64, error) { return 1 << 30, nil }

func (still) Engines(context.Context, []host.Engine) []host.Usage { return nil }

func (still) Marks(host.Engine) host.Marks { return host.Marks{} }

func (still) Place() host.Place { return host.Place{} }

func (still) Capacity(context.Context) (host.Capacity, error) {
	return host.Capacity{MemoryBytes: 1 << 30, CPUMillis: 4000}, nil
}

// heartbeatServer is a coordinator that takes every host.
type heartbeatServer struct {
	bursarv1connect.HostServiceClient

	interval time.Duration
	hang     bool

	mu  sync.Mutex
	err error
}

func (p *heartbeatServer) fail(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.err = err
}

func (p *heartbeatServer) Register(_ context.Context, q *bursarv1.RegisterRequest) (*bursarv1.RegisterResponse, error) {
	return &bursarv1.RegisterResponse{Epoch: max(1, q.GetEpoch()), Interval: durationpb.New(p.interval)}, nil
}

func (p *heartbeatServer) Sync(ctx context.Context, q *bursarv1.SyncRequest) (*bursarv1.SyncResponse, error) {
	if p.hang {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return &bursarv1.SyncResponse{Epoch: max(1, q.GetEpoch()), LedgerSequence: 1, Complete: true, Interval: durationpb.New(p.interval)}, p.err
}

// beat runs the loops of an agent without its server, in a bubble, until f returns.
func beat(t *testing.T, p *heartbeatServer, f func(a *Agent)) {
	t.Helper()
	dir, err := statefile.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	synctest.Test(t, func(t *testing.T) {
		a, err := New(Config{HostID: "h1", Tick: 5 * time.Second}, Deps{Allocations: &patient{}, Hosts: p, Meter: still{}, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		a.state.Open(dir, "boot-1", 1)
		a.state.Begin(tracker.New(time.Now(), tracker.Host{ID: "h1", BootID: "boot-1", Incarnation: 1}, tracker.Snapshot{}))
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 2)
		go func() { ended <- a.measureLoop(ctx) }()
		go func() { ended <- a.reports.Loop(ctx) }()
		f(a)
		cancel()
		for range 2 {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
	})
}

func TestMeasurementsCanBeBroughtForwardButNotWithoutEnd(t *testing.T) {
	p := &heartbeatServer{interval: time.Hour}
	beat(t, p, func(a *Agent) {
		time.Sleep(62 * time.Second) // between two ticks
		count := func(f func()) int {
			before := a.measuredAt.Last()
			changes := 0
			for range 10_000 {
				f()
				time.Sleep(time.Millisecond)
				if at := a.measuredAt.Last(); !at.Equal(before) {
					before = at
					changes++
				}
			}
			return changes
		}
		if got := count(func() {}); got != 2 {
			t.Errorf("%d measurements in 10 s, want 2", got)
		}
		if got := count(func() { a.measureDue.In(0) }); got < 35 || got > 41 {
			t.Errorf("%d measurements in 10 s when one is always wanted, want one every 250 ms", got)
		}
	})
}

// known is the tracker of an agent whose other goroutines do not use it now.
func known(a *Agent) (known *tracker.Tracker) {
	a.state.Locked(func(t *tracker.Tracker) { known = t })
	return known
}

// becomeReady has the coordinator take the host, and reports no more.
func becomeReady(a *Agent) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = a.reports.Loop(ctx)
	}()
	<-a.Ready()
	cancel()
	<-ended
}
