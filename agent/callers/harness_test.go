package callers

import (
	"context"
	"log/slog"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/bursar/bursar/agent/engine"
	"github.com/bursar/bursar/agent/hoststate"
	"github.com/bursar/bursar/agent/launch"
	"github.com/bursar/bursar/agent/loops"
	"github.com/bursar/bursar/agent/report"
	"github.com/bursar/bursar/agent/tracker"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/proto/bursar/v1/bursarv1connect"
)

// subject is the API of a host without engines, on which nothing is measured, with its reports.
type subject struct {
	*API

	reports *report.Reporter
	running sync.WaitGroup
}

// newSubject returns one that has not reported yet. Of the options a test gives what it needs.
func newSubject(o Options, hosts bursarv1connect.HostServiceClient) *subject {
	s := &subject{}
	o.Log = slog.New(slog.DiscardHandler)
	o.State = hoststate.New(o.Log, func() string { return "h1" }, func(time.Duration, error) {})
	o.State.Open(nil, "boot-1", 1)
	o.State.Begin(tracker.New(time.Now(), tracker.Host{ID: "h1", BootID: "boot-1", Incarnation: 1}, tracker.Snapshot{}))
	o.MeasureDue, o.SyncDue, o.Background = loops.NewWakeup(time.Now()), loops.NewWakeup(time.Now()), s.running.Go
	o.OutputRead = func(error) {}
	o.FreshMemory, o.Vetoed = func(context.Context) {}, func(*bursarv1.Allocation, tracker.Refusal) {}
	if o.Settings == nil {
		o.Settings = func() Settings { return Settings{HostID: "h1", Patience: 10 * time.Second} }
	}
	o.Engines = engine.New(engine.Options{
		State: o.State, Records: launch.Records("/no/such"), MeasureDue: o.MeasureDue, SyncDue: o.SyncDue, Background: o.Background, Log: o.Log,
	})
	s.reports = report.New(report.Options{
		State: o.State, Hosts: hosts, Orders: o.Engines, Elsewhere: func() {}, MeasureDue: o.MeasureDue, SyncDue: o.SyncDue,
		Pass: func(pass func()) { pass() }, Uptime: func() time.Duration { return 0 }, FreshMemory: o.FreshMemory,
		Synced: func(time.Duration, error) {}, Vetoed: o.Vetoed, Log: o.Log,
	})
	o.Reports = s.reports
	s.API = New(o)
	return s
}

// beat runs the loop of a host's reports, in a bubble, until f returns.
func beat(t *testing.T, p *heartbeats, o Options, f func(s *subject)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := newSubject(o, p)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- s.reports.Loop(ctx) }()
		f(s)
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		s.running.Wait()
	})
}

// heartbeats is a coordinator that takes every host.
type heartbeats struct {
	bursarv1connect.HostServiceClient

	mu   sync.Mutex
	err  error     // guarded by mu; what it answers to a Sync
	last time.Time // guarded by mu; when the last Sync came
}

func (p *heartbeats) fail(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.err = err
}

func (p *heartbeats) Register(_ context.Context, q *bursarv1.RegisterRequest) (*bursarv1.RegisterResponse, error) {
	return &bursarv1.RegisterResponse{Epoch: max(1, q.GetEpoch()), Interval: durationpb.New(time.Minute)}, nil
}

func (p *heartbeats) Sync(_ context.Context, q *bursarv1.SyncRequest) (*bursarv1.SyncResponse, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last = time.Now()
	return &bursarv1.SyncResponse{Epoch: max(1, q.GetEpoch()), LedgerSequence: 1, Complete: true, Interval: durationpb.New(time.Minute)}, p.err
}

// pipes is a listener within a bubble.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case conn := <-p.conns:
		return conn, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	close(p.closed)
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "unix"} }
