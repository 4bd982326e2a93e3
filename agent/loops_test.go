package agent

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
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

func (still) Available(context.Context) (int64, error) { return 1 << 30, nil }

func (still) Engines(context.Context, []host.Engine) []host.Usage { return nil }

func (still) Marks(host.Engine) host.Marks { return host.Marks{} }

func (still) Place() host.Place { return host.Place{} }

func (still) Capacity(context.Context) (host.Capacity, error) {
	return host.Capacity{MemoryBytes: 1 << 30, CPUMillis: 4000}, nil
}

// heartbeatServer is a coordinator that writes down when it was called.
type heartbeatServer struct {
	bursarv1connect.HostServiceClient

	interval time.Duration
	hang     bool
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

// beat runs the loops of an agent without its server, in a bubble, until f returns.
func beat(t *testing.T, p *heartbeatServer, f func(a *Agent)) {
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
	p := &heartbeatServer{interval: 7 * time.Second}
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
	for name, p := range map[string]*heartbeatServer{
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
	p := &heartbeatServer{interval: time.Minute}
	beat(t, p, func(a *Agent) {
		time.Sleep(time.Second)
		before := p.calls()
		for range 10 {
			a.syncDue.noLaterThan(time.Now())
		}
		time.Sleep(time.Second)
		if got := p.calls() - before; got != 1 {
			t.Errorf("%d heartbeats for what became urgent in one moment, want 1", got)
		}
		p.fail(connect.NewError(connect.CodeUnavailable, errors.New("away")))
		a.syncDue.noLaterThan(time.Now())
		time.Sleep(10 * time.Second)
		before = p.calls()
		for range 1000 {
			a.syncDue.noLaterThan(time.Now())
			time.Sleep(time.Millisecond)
		}
		if got := p.calls() - before; got > 2 {
			t.Errorf("%d attempts in a second while the coordinator is away", got)
		}
	})
}

func TestMeasurementsCanBeBroughtForwardButNotWithoutEnd(t *testing.T) {
	p := &heartbeatServer{interval: time.Hour}
	beat(t, p, func(a *Agent) {
		time.Sleep(62 * time.Second) // between two ticks
		count := func(f func()) int {
			before := a.measuredAt.last()
			changes := 0
			for range 10_000 {
				f()
				time.Sleep(time.Millisecond)
				if at := a.measuredAt.last(); !at.Equal(before) {
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

func TestLeaderThatIsNamedHearsOfTheHostSoon(t *testing.T) {
	p := &heartbeatServer{interval: time.Minute}
	herald := &heralds{leader: "a"}
	beat(t, p, func(a *Agent) {
		a.deps.Finder = herald
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_ = a.leaderWatch(ctx)
		}()
		time.Sleep(7 * time.Second) // between two ticks; the first one is named at the start
		for _, named := range []string{"b", "", "b"} {
			before := p.calls()
			herald.name(named)
			time.Sleep(spreadOf(p.interval) + syncGap)
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
		a.syncDue.noLaterThan(time.Now())
		time.Sleep(time.Minute)
		p.fail(nil)
		before := p.calls()
		herald.name("c")
		time.Sleep(spreadOf(p.interval) + syncGap)
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
		p := &heartbeatServer{interval: 15 * time.Second}
		beat(t, p, func(a *Agent) {
			time.Sleep(time.Second)
			herald := &heralds{leader: "a"}
			a.deps.Finder = herald
			ctx, cancel := context.WithCancel(context.Background())
			ended := make(chan struct{})
			named, before := time.Now(), p.calls()
			go func() {
				defer close(ended)
				_ = a.leaderWatch(ctx)
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
	beat(t, p, func(a *Agent) {
		time.Sleep(time.Minute)
		p.fail(nil)
		before := p.calls()
		a.heardAgain()
		time.Sleep(2 * syncRetryFirst)
		if got := p.calls() - before; got != 1 {
			t.Errorf("%d heartbeats after a coordinator answered again, want 1", got)
		}
		p.fail(connect.NewError(connect.CodePermissionDenied, errors.New("not for heartbeats")))
		a.syncDue.noLaterThan(time.Now())
		time.Sleep(time.Second)
		before = p.calls()
		for range 10_000 {
			a.heardAgain()
			time.Sleep(time.Millisecond)
		}
		if got := p.calls() - before; got > 110 {
			t.Errorf("%d heartbeats in 10 s, all refused, while calls are answered", got)
		}
	})
}

func TestAnsweredHeartbeatEndsThePausesOfCallers(t *testing.T) {
	unavailable := connect.NewError(connect.CodeUnavailable, errors.New("away"))
	p := &heartbeatServer{interval: time.Minute, err: unavailable}
	beat(t, p, func(a *Agent) {
		var back atomic.Bool
		// the test's own is not of the bubble
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		const callers = 20
		answered := make(chan time.Time, callers)
		for range callers {
			go func() {
				if _, err := relay(ctx, a, func(context.Context, *bursarv1.ReleaseRequest) (*bursarv1.ReleaseResponse, error) {
					if !back.Load() {
						return nil, unavailable
					}
					return &bursarv1.ReleaseResponse{}, nil
				}, &bursarv1.ReleaseRequest{}); err != nil {
					t.Error(err)
				}
				answered <- time.Now()
			}()
		}
		time.Sleep(10 * time.Second) // their pauses are as long as they get
		p.fail(nil)
		back.Store(true)
		came := time.Now()
		a.syncDue.bringForward(came)
		for range callers {
			if late := (<-answered).Sub(came); late > syncGap {
				t.Errorf("a caller was answered %v after a heartbeat was", late)
			}
		}
	})
}

// Asking again would be in vain until the next heartbeat: an agent that gets this answer is to
// send one first.
func TestRefusalForWantOfAReportIsNotAskedAgain(t *testing.T) {
	beat(t, &heartbeatServer{interval: time.Minute}, func(a *Agent) {
		early := connect.NewError(connect.CodeUnavailable, errors.New("hosts have not reported yet"))
		detail, err := connect.NewErrorDetail(&bursarv1.InsufficientResources{Shortfalls: []*bursarv1.Shortfall{{
			Account: &bursarv1.AccountName{Kind: bursarv1.AccountKind_ACCOUNT_KIND_HOST}, Dimension: "memory", Note: "health",
		}}})
		if err != nil {
			t.Fatal(err)
		}
		early.AddDetail(detail)
		// the test's own is not of the bubble
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		calls := 0
		_, err = relay(ctx, a, func(context.Context, *bursarv1.AllocateRequest) (*bursarv1.AllocateResponse, error) {
			calls++
			return nil, early
		}, &bursarv1.AllocateRequest{})
		if calls != 1 || !a.unknownTo(err) {
			t.Errorf("%d calls, %v: want one, and that the host is to report", calls, err)
		}
	})
}

// A host that operators have closed is known: another report would not help. Coordinators of
// versions that have no codes say "health" of it, too.
func TestAClosedHostIsNotUnknown(t *testing.T) {
	for name, test := range map[string]struct {
		code bursarv1.ShortfallNote
		note string
		why  string
		want bool
	}{
		"cordoned":     {bursarv1.ShortfallNote_SHORTFALL_NOTE_CORDONED, "health", "", false},
		"draining":     {bursarv1.ShortfallNote_SHORTFALL_NOTE_DRAINING, "health", "", false},
		"suspect":      {bursarv1.ShortfallNote_SHORTFALL_NOTE_HEALTH, "health", "", true},
		"not measured": {bursarv1.ShortfallNote_SHORTFALL_NOTE_UNKNOWN, "unknown", "", true},
		"by its text":  {bursarv1.ShortfallNote_SHORTFALL_NOTE_UNSPECIFIED, "health", "", true},
		"full":         {bursarv1.ShortfallNote_SHORTFALL_NOTE_UNSPECIFIED, "", "", false},
		"not there":    {bursarv1.ShortfallNote_SHORTFALL_NOTE_MISSING, "missing", "there is no such host yet", true},
		"without GPUs": {bursarv1.ShortfallNote_SHORTFALL_NOTE_MISSING, "missing", "", false},
	} {
		if got := notYetKnown(&bursarv1.Shortfall{
			Account: &bursarv1.AccountName{Kind: bursarv1.AccountKind_ACCOUNT_KIND_HOST}, NoteCode: test.code, Note: test.note, Detail: test.why,
		}); got != test.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

func TestAlarmRingsAtTheEarliestMomentThatIsAllowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		a := newWakeup(began.Add(time.Hour))
		a.set(began.Add(time.Hour), began.Add(2*time.Second))
		go func() {
			time.Sleep(time.Second)
			a.noLaterThan(began.Add(5 * time.Minute))
			a.noLaterThan(began) // too early
			a.noLaterThan(began.Add(10 * time.Minute))
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
