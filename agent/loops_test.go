package agent

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"
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

func (still) Engines(context.Context, []host.Engine) []host.Usage { return nil }

func (still) Capacity(context.Context) (host.Capacity, error) {
	return host.Capacity{MemoryBytes: 1 << 30, CPUMillis: 4000}, nil
}

// pulse is a coordinator that writes down when it was called.
type pulse struct {
	bursarv1connect.HostServiceClient

	interval time.Duration
	hang     bool

	mu      sync.Mutex
	err     error
	syncs   []time.Time
	samples map[time.Time]bool
}

// calls is how many Syncs there were.
func (p *pulse) calls() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.syncs)
}

func (p *pulse) fail(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.err = err
}

func (p *pulse) Register(context.Context, *bursarv1.RegisterRequest) (*bursarv1.RegisterResponse, error) {
	return &bursarv1.RegisterResponse{Epoch: 1, Interval: durationpb.New(p.interval)}, nil
}

func (p *pulse) Sync(ctx context.Context, q *bursarv1.SyncRequest) (*bursarv1.SyncResponse, error) {
	p.mu.Lock()
	p.syncs = append(p.syncs, time.Now())
	if q.GetSample() != nil {
		p.samples[q.GetSample().GetSampleTime().AsTime()] = true
	}
	err := p.err
	p.mu.Unlock()
	if p.hang {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return &bursarv1.SyncResponse{Epoch: 1, LedgerSequence: 1, Complete: true, Interval: durationpb.New(p.interval)}, err
}

// gaps are the times between the Syncs from the n-th on.
func (p *pulse) gaps(from int) []time.Duration {
	var gaps []time.Duration
	for i := from + 1; i < len(p.syncs); i++ {
		gaps = append(gaps, p.syncs[i].Sub(p.syncs[i-1]))
	}
	return gaps
}

// beat runs the loops of an agent without its server, in a bubble, until f returns.
func beat(t *testing.T, p *pulse, f func(a *Agent)) {
	t.Helper()
	dir, err := statefile.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	synctest.Test(t, func(t *testing.T) {
		p.samples = map[time.Time]bool{}
		a, err := New(Config{HostID: "h1", Tick: 5 * time.Second}, Deps{Allocations: &patient{}, Hosts: p, Meter: still{}, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		a.dir = dir
		a.tracker = tracker.New(time.Now(), tracker.Host{ID: "h1", BootID: "boot-1", Incarnation: 1}, tracker.Snapshot{})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 2)
		go func() { ended <- a.measureLoop(ctx) }()
		go func() { ended <- a.syncLoop(ctx) }()
		f(a)
		cancel()
		for range 2 {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
	})
}

func TestHeartbeatsComeAtTheIntervalThatTheCoordinatorWants(t *testing.T) {
	p := &pulse{interval: 7 * time.Second}
	beat(t, p, func(*Agent) { time.Sleep(10 * time.Minute) })
	distinct := map[time.Duration]bool{}
	for _, gap := range p.gaps(2) {
		distinct[gap] = true
		if gap < 6300*time.Millisecond || gap > 7700*time.Millisecond {
			t.Errorf("gap of %v, want 7 s, more or less a tenth", gap)
		}
	}
	if len(distinct) < 10 {
		t.Errorf("%d different gaps: a fleet would beat in time", len(distinct))
	}
	if n := len(p.samples); n < 75 {
		t.Errorf("%d samples in 10 minutes, want one with nearly every heartbeat", n)
	}
}

func TestFailedHeartbeatsBackOff(t *testing.T) {
	for name, p := range map[string]*pulse{
		"refused": {interval: 5 * time.Second, err: connect.NewError(connect.CodeUnavailable, errors.New("away"))},
		"hanging": {interval: 5 * time.Second, hang: true},
	} {
		t.Run(name, func(t *testing.T) {
			beat(t, p, func(*Agent) { time.Sleep(5 * time.Minute) })
			gaps := p.gaps(0)
			if len(gaps) < 10 {
				t.Fatalf("%d attempts in 5 minutes", len(gaps)+1)
			}
			for i, gap := range gaps {
				attempt := time.Duration(0)
				if p.hang {
					attempt = syncTimeout
				}
				if gap < attempt+syncRetryFirst/2 || gap > attempt+syncRetryLast*3/2 {
					t.Errorf("gap %d: %v", i, gap)
				}
			}
			if last := gaps[len(gaps)-1]; last < syncRetryLast/2 {
				t.Errorf("the last gap is %v: it does not grow", last)
			}
		})
	}
}

func TestWhatIsUrgentIsToldAtOnceAndNotTooOften(t *testing.T) {
	p := &pulse{interval: time.Minute}
	beat(t, p, func(a *Agent) {
		time.Sleep(time.Second)
		before := p.calls()
		for range 10 {
			a.syncDue.by(time.Now())
		}
		time.Sleep(time.Second)
		if got := p.calls() - before; got != 1 {
			t.Errorf("%d heartbeats for what became urgent in one moment, want 1", got)
		}
		p.fail(connect.NewError(connect.CodeUnavailable, errors.New("away")))
		a.syncDue.by(time.Now())
		time.Sleep(10 * time.Second)
		before = p.calls()
		for range 1000 {
			a.syncDue.by(time.Now())
			time.Sleep(time.Millisecond)
		}
		if got := p.calls() - before; got > 2 {
			t.Errorf("%d attempts in a second while the coordinator is away", got)
		}
	})
}

func TestMeasurementsCanBeBroughtForwardButNotWithoutEnd(t *testing.T) {
	p := &pulse{interval: time.Hour}
	beat(t, p, func(a *Agent) {
		time.Sleep(62 * time.Second) // between two ticks
		count := func(f func()) int {
			before := a.measuredAt.Load()
			changes := 0
			for range 10_000 {
				f()
				time.Sleep(time.Millisecond)
				if at := a.measuredAt.Load(); at != before {
					before = at
					changes++
				}
			}
			return changes
		}
		if got := count(func() {}); got != 2 {
			t.Errorf("%d measurements in 10 s, want 2", got)
		}
		if got := count(func() { a.measureIn(0) }); got < 35 || got > 41 {
			t.Errorf("%d measurements in 10 s when one is always wanted, want one every 250 ms", got)
		}
	})
}

func TestAlarmRingsAtTheEarliestMomentThatIsAllowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		a := newAlarm(began.Add(time.Hour))
		a.set(began.Add(time.Hour), began.Add(2*time.Second))
		go func() {
			time.Sleep(time.Second)
			a.by(began.Add(5 * time.Minute))
			a.by(began) // too early
			a.by(began.Add(10 * time.Minute))
		}()
		if !a.wait(t.Context()) || time.Since(began) != 2*time.Second {
			t.Errorf("rang after %v, want 2 s", time.Since(began))
		}
		a.set(time.Now().Add(time.Hour), time.Now())
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if a.wait(ctx) {
			t.Error("rang although its context has ended")
		}
	})
}
