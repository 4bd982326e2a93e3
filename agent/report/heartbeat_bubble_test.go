package report

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
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/bursar/bursar/agent/hoststate"
	"github.com/bursar/bursar/agent/loops"
	"github.com/bursar/bursar/agent/statefile"
	"github.com/bursar/bursar/agent/tracker"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/proto/bursar/v1/bursarv1connect"
)

// heartbeatServer is a coordinator that writes down when it was called.
type heartbeatServer struct {
	bursarv1connect.HostServiceClient

	interval time.Duration
	hang     bool
	herald   *heralds // names the leader; nil: nobody does
	// answer is another answer to Sync number n, from 1; nil: the usual one.
	answer func(n int) *bursarv1.SyncResponse

	mu        sync.Mutex
	err       error
	registers []time.Time
	syncs     []time.Time
	samples   map[time.Time]bool
}

// calls is how many Syncs there were.
func (p *heartbeatServer) calls() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.syncs)
}

func (p *heartbeatServer) fail(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.err = err
}

// hangFromNow leaves all later Syncs without an answer.
func (p *heartbeatServer) hangFromNow() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hang = true
}

func (p *heartbeatServer) Register(_ context.Context, q *bursarv1.RegisterRequest) (*bursarv1.RegisterResponse, error) {
	p.mu.Lock()
	p.registers = append(p.registers, time.Now())
	p.mu.Unlock()
	return &bursarv1.RegisterResponse{Epoch: max(1, q.GetEpoch()), Interval: durationpb.New(p.interval)}, nil
}

func (p *heartbeatServer) Sync(ctx context.Context, q *bursarv1.SyncRequest) (*bursarv1.SyncResponse, error) {
	p.mu.Lock()
	p.syncs = append(p.syncs, time.Now())
	if q.GetSample() != nil {
		p.samples[q.GetSample().GetSampleTime().AsTime()] = true
	}
	err, n, hang := p.err, len(p.syncs), p.hang
	p.mu.Unlock()
	if hang {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if p.answer != nil {
		if answer := p.answer(n); answer != nil {
			return answer, nil
		}
	}
	return &bursarv1.SyncResponse{Epoch: max(1, q.GetEpoch()), LedgerSequence: 1, Complete: true, Interval: durationpb.New(p.interval)}, err
}

// gaps are the times between the Syncs from the n-th on.
func (p *heartbeatServer) gaps(from int) []time.Duration {
	var gaps []time.Duration
	for i := from + 1; i < len(p.syncs); i++ {
		gaps = append(gaps, p.syncs[i].Sub(p.syncs[i-1]))
	}
	return gaps
}

// ignores is a host on which no order is carried out.
type ignores struct{}

func (ignores) Stop(context.Context, *bursarv1.StopOrder) {}

func (ignores) Watch(context.Context) {}

// beat runs the loop of a reporter, in a bubble, next to one that measures every 5 s, until f
// returns.
func beat(t *testing.T, p *heartbeatServer, f func(r *Reporter)) {
	t.Helper()
	dir, err := statefile.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	synctest.Test(t, func(t *testing.T) {
		p.samples = map[time.Time]bool{}
		log := slog.New(slog.DiscardHandler)
		state := hoststate.New(log, func() string { return "h1" }, func(time.Duration, error) {})
		state.Open(dir, "boot-1", 1)
		state.Begin(tracker.New(time.Now(), tracker.Host{ID: "h1", BootID: "boot-1", Incarnation: 1}, tracker.Snapshot{}))
		o := Options{
			State: state, Hosts: p, Orders: ignores{}, Elsewhere: func() {},
			MeasureDue: loops.NewWakeup(time.Now()), SyncDue: loops.NewWakeup(time.Now()), Pass: func(pass func()) { pass() },
			Uptime: func() time.Duration { return 0 }, FreshMemory: func(context.Context) {},
			Synced: func(time.Duration, error) {}, Vetoed: func(*bursarv1.Allocation, tracker.Refusal) {}, Log: log,
		}
		if p.herald != nil {
			o.Finder = p.herald
		}
		r := New(o)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- r.Loop(ctx) }()
		measured := make(chan struct{})
		go func() {
			defer close(measured)
			measureEvery(ctx, 5*time.Second, r)
		}()
		f(r)
		cancel()
		<-measured
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// measureEvery has the tracker measure nothing but the time.
func measureEvery(ctx context.Context, tick time.Duration, r *Reporter) {
	for ctx.Err() == nil {
		urgent := false
		r.state.Locked(func(t *tracker.Tracker) {
			available := int64(1 << 30)
			t.Measure(time.Now(), tracker.Measurement{Sample: &bursarv1.HostSample{SampleTime: timestamppb.Now(), MemoryAvailableBytes: &available}})
			urgent = t.Urgent()
		})
		if urgent {
			r.syncDue.In(0)
		}
		select {
		case <-ctx.Done():
		case <-time.After(tick):
		}
	}
}

func TestHeartbeatsComeAtTheIntervalThatTheCoordinatorWants(t *testing.T) {
	p := &heartbeatServer{interval: 7 * time.Second}
	beat(t, p, func(*Reporter) { time.Sleep(10 * time.Minute) })
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
	for name, p := range map[string]*heartbeatServer{
		"refused": {interval: 5 * time.Second, err: connect.NewError(connect.CodeUnavailable, errors.New("away"))},
		"hanging": {interval: 5 * time.Second, hang: true},
	} {
		t.Run(name, func(t *testing.T) {
			beat(t, p, func(*Reporter) { time.Sleep(5 * time.Minute) })
			gaps := p.gaps(0)
			if len(gaps) < 10 {
				t.Fatalf("%d attempts in 5 minutes", len(gaps)+1)
			}
			for i, gap := range gaps {
				attempt := time.Duration(0)
				if p.hang {
					attempt = Timeout
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
	p := &heartbeatServer{interval: time.Minute}
	beat(t, p, func(r *Reporter) {
		time.Sleep(time.Second)
		before := p.calls()
		for range 10 {
			r.syncDue.NoLaterThan(time.Now())
		}
		time.Sleep(time.Second)
		if got := p.calls() - before; got != 1 {
			t.Errorf("%d heartbeats for what became urgent in one moment, want 1", got)
		}
		p.fail(connect.NewError(connect.CodeUnavailable, errors.New("away")))
		r.syncDue.NoLaterThan(time.Now())
		time.Sleep(10 * time.Second)
		before = p.calls()
		for range 1000 {
			r.syncDue.NoLaterThan(time.Now())
			time.Sleep(time.Millisecond)
		}
		if got := p.calls() - before; got > 2 {
			t.Errorf("%d attempts in a second while the coordinator is away", got)
		}
	})
}

func TestLeaderThatIsNamedHearsOfTheHostSoon(t *testing.T) {
	herald := &heralds{leader: "a"}
	p := &heartbeatServer{interval: time.Minute, herald: herald}
	beat(t, p, func(r *Reporter) {
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_ = r.WatchLeader(ctx)
		}()
		time.Sleep(7 * time.Second) // between two ticks; the first one is named at the start
		for _, named := range []string{"b", "", "b"} {
			before := p.calls()
			herald.name(named)
			time.Sleep(spreadOf(p.interval) + Gap)
			want := 1
			if named == "" {
				want = 0
			}
			if got := p.calls() - before; got != want {
				t.Errorf("%q was named: %d heartbeats, want %d", named, got, want)
			}
		}
		// Also where it was waiting longer and longer for the one before.
		p.fail(connect.NewError(connect.CodeUnavailable, errors.New("away")))
		r.syncDue.NoLaterThan(time.Now())
		time.Sleep(time.Minute)
		p.fail(nil)
		before := p.calls()
		herald.name("c")
		time.Sleep(spreadOf(p.interval) + Gap)
		if got := p.calls() - before; got < 1 {
			t.Error("no heartbeat for a leader that was named after a long time without")
		}
		cancel()
		<-ended
	})
}

func TestFleetComesToANewLeaderBitByBit(t *testing.T) {
	var first, last time.Duration
	for i := range 40 {
		p := &heartbeatServer{interval: 15 * time.Second, herald: &heralds{leader: "a"}}
		beat(t, p, func(r *Reporter) {
			time.Sleep(time.Second)
			ctx, cancel := context.WithCancel(context.Background())
			ended := make(chan struct{})
			named, before := time.Now(), p.calls()
			go func() {
				defer close(ended)
				_ = r.WatchLeader(ctx)
			}()
			for p.calls() == before {
				time.Sleep(time.Millisecond)
			}
			took := time.Since(named)
			if first, last = min(first, took), max(last, took); i == 0 {
				first = took
			}
			cancel()
			<-ended
		})
	}
	if want := 3 * time.Second; first > want/4 || last < want*3/4 || last > want*11/10 { // a fifth of the interval
		t.Errorf("40 agents came between %v and %v after, want all over %v", first, last, want)
	}
}

func TestAnswerToACallerEndsALongPause(t *testing.T) {
	p := &heartbeatServer{interval: time.Minute, err: connect.NewError(connect.CodeUnavailable, errors.New("away"))}
	beat(t, p, func(r *Reporter) {
		time.Sleep(time.Minute)
		p.fail(nil)
		before := p.calls()
		r.HeardAgain()
		time.Sleep(2 * syncRetryFirst)
		if got := p.calls() - before; got != 1 {
			t.Errorf("%d heartbeats after a coordinator answered again, want 1", got)
		}
		p.fail(connect.NewError(connect.CodePermissionDenied, errors.New("not for heartbeats")))
		r.syncDue.NoLaterThan(time.Now())
		time.Sleep(time.Second)
		before = p.calls()
		for range 10_000 {
			r.HeardAgain()
			time.Sleep(time.Millisecond)
		}
		if got := p.calls() - before; got > 110 {
			t.Errorf("%d heartbeats in 10 s, all refused, while calls are answered", got)
		}
	})
}
