package agent

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/bursar/bursar/agent/statefile"
	"github.com/bursar/bursar/agent/tracker"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/proto/bursar/v1/bursarv1connect"
	"github.com/bursar/bursar/providers/host"
)

const gib = int64(1 << 30)

// greedy is a machine with one engine, "e", that uses what a test says.
type greedy struct {
	Meter

	mu   sync.Mutex
	used int64 // bytes, that the kernel cannot take back
	err  error
	gone bool
}

func (g *greedy) uses(bytes int64) { g.set(func() { g.used = bytes }) }

func (g *greedy) set(f func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	f()
}

func (g *greedy) Engines(_ context.Context, engines []host.Engine) []host.Usage {
	g.mu.Lock()
	defer g.mu.Unlock()
	usages := make([]host.Usage, len(engines))
	for i, e := range engines {
		usages[i] = host.Usage{ID: e.ID}
		if !g.gone {
			usages[i] = host.Usage{ID: e.ID, Alive: true, Processes: 1, MemoryBytes: g.used + gib, UnreclaimableBytes: g.used, Err: g.err}
		}
	}
	return usages
}

func (g *greedy) Sample(context.Context) host.Sample {
	g.mu.Lock()
	defer g.mu.Unlock()
	available := 16*gib - g.used
	return host.Sample{Time: time.Now(), MemoryAvailableBytes: &available}
}

func (*greedy) Capacity(context.Context) (host.Capacity, error) {
	return host.Capacity{MemoryBytes: 16 * gib, CPUMillis: 4000}, nil
}

// Identify finds none of its processes, so that no signal is sent.
func (*greedy) Identify(int32) (host.Identity, error) { return host.Identity{}, host.ErrNoProcess }

// desk is a coordinator that holds one allocation, the engine "e" of 4 GiB.
type desk struct {
	mu       sync.Mutex
	away     bool
	refuses  error // of Stop
	revision uint64
	engine   *bursarv1.Allocation
	order    *bursarv1.StopOrder
	ordered  bool // the order was handed out
	syncs    int
	overUse  []*bursarv1.OverUse // as last reported
	reports  []time.Time         // of a change of that
	asked    []time.Time
	request  *bursarv1.StopRequest
	ended    *bursarv1.EngineEnd
}

func newDesk(action string) *desk {
	d := &desk{revision: 7, engine: &bursarv1.Allocation{
		Id: "e", HostId: "h1", State: bursarv1.AllocationState_ALLOCATION_STATE_ACTIVE, Revision: 7, Labels: map[string]string{"policy": action},
		Entitled: &bursarv1.Resource{MemoryBytes: new(4 * gib)}, Process: &bursarv1.Process{Pid: 4242, StartTime: 7, BootId: "boot-1"},
	}}
	return d
}

func (d *desk) do(f func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f()
}

// put changes the allocation; the caller holds mu.
func (d *desk) put(change func(a *bursarv1.Allocation)) *bursarv1.Allocation {
	d.revision++
	d.engine = proto.CloneOf(d.engine)
	d.engine.Revision = d.revision
	change(d.engine)
	return d.engine
}

var errAway = connect.NewError(connect.CodeUnavailable, errors.New("away"))

// deskHosts and deskAllocations are its two services.
type (
	deskHosts struct {
		bursarv1connect.HostServiceClient
		*desk
	}
	deskAllocations struct {
		bursarv1connect.AllocationServiceClient
		*desk
	}
)

func (d deskHosts) Register(context.Context, *bursarv1.RegisterRequest) (*bursarv1.RegisterResponse, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.away {
		return nil, errAway
	}
	return &bursarv1.RegisterResponse{Epoch: 1, Interval: durationpb.New(5 * time.Second)}, nil
}

func (d deskHosts) Sync(_ context.Context, q *bursarv1.SyncRequest) (*bursarv1.SyncResponse, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.away {
		return nil, errAway
	}
	d.syncs++
	r := &bursarv1.SyncResponse{Epoch: 1, LedgerSequence: d.revision, Complete: q.GetFull(), Interval: durationpb.New(time.Minute)}
	for _, report := range q.GetEngines() {
		if !sameOverUse(d.overUse, report.GetOverUse()) {
			d.overUse = report.GetOverUse()
			d.reports = append(d.reports, time.Now())
		}
	}
	for _, end := range q.GetEnded() {
		d.ended, d.order = end, nil
		r.Acknowledged = append(r.Acknowledged, end.GetAllocationId())
	}
	if d.ended == nil && (q.GetFull() || q.GetLedgerSequence() < d.revision) {
		r.Grants = append(r.Grants, d.engine)
	}
	if d.order != nil {
		r.Stops, d.ordered = append(r.Stops, d.order), true
	}
	return r, nil
}

func (d deskAllocations) Stop(_ context.Context, q *bursarv1.StopRequest) (*bursarv1.StopResponse, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.asked, d.request = append(d.asked, time.Now()), q
	if d.away {
		return nil, errAway
	}
	if d.refuses != nil {
		return nil, d.refuses
	}
	d.order = &bursarv1.StopOrder{AllocationId: q.GetId(), Grace: q.GetGrace(), Reason: q.GetReason()}
	return &bursarv1.StopResponse{Allocation: d.put(func(a *bursarv1.Allocation) { a.Stopping = true })}, nil
}

func sameOverUse(a, b []*bursarv1.OverUse) bool {
	return proto.Equal(&bursarv1.EngineReport{OverUse: a}, &bursarv1.EngineReport{OverUse: b})
}

// bench is an agent in a bubble, with its machine, its coordinator and its log.
type bench struct {
	*testing.T
	*desk

	machine *greedy
	agent   *Agent
	log     *bytes.Buffer // read when nothing runs
}

// settle lets so many ticks pass and everything that they begin end.
func (b *bench) settle(ticks int) {
	b.Helper()
	time.Sleep(time.Duration(ticks) * DefaultTick)
	synctest.Wait()
}

func (b *bench) held() *bursarv1.Allocation {
	b.Helper()
	list := b.agent.held()
	if len(list) != 1 {
		b.Fatalf("it holds %v", list)
	}
	return list[0]
}

// logged is how often the log has a text.
func (b *bench) logged(text string) int { return strings.Count(b.log.String(), text) }

// overuse runs an agent whose policies are named by the label "policy", until f returns.
func overuse(t *testing.T, d *desk, f func(b *bench)) {
	t.Helper()
	dir, err := statefile.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	proc := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		b := &bench{T: t, desk: d, machine: &greedy{used: gib}, log: &bytes.Buffer{}}
		config := Config{HostID: "h1"}
		for _, action := range []string{"observe", "warn", "limit", "kill"} {
			config.Engines.Policies = append(config.Engines.Policies, PolicyConfig{Match: map[string]string{"policy": action}, OnOverUse: action})
		}
		if b.agent, err = New(config, Deps{
			Allocations: deskAllocations{desk: d}, Hosts: deskHosts{desk: d}, Meter: b.machine, Proc: proc,
			Logger: slog.New(slog.NewTextHandler(b.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		}); err != nil {
			t.Fatal(err)
		}
		a := b.agent
		a.dir, a.bootID = dir, "boot-1"
		a.tracker = tracker.New(time.Now(), tracker.Host{ID: "h1", BootID: "boot-1", Incarnation: 1}, tracker.Snapshot{
			BootID: "boot-1", Engines: []*bursarv1.Allocation{d.engine},
		})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 2)
		go func() { ended <- a.measureLoop(ctx) }()
		go func() { ended <- a.syncLoop(ctx) }()
		b.settle(3)
		f(b)
		cancel()
		for range 2 {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
		a.running.Wait()
	})
}

func TestOverUseIsReportedAtOnceLoggedOnceAndShown(t *testing.T) {
	for action, test := range map[string]struct {
		policy bursarv1.OverUsePolicy
		warns  int
	}{
		"observe": {bursarv1.OverUsePolicy_OVER_USE_POLICY_OBSERVE, 0},
		"warn":    {bursarv1.OverUsePolicy_OVER_USE_POLICY_WARN, 1},
		"limit":   {bursarv1.OverUsePolicy_OVER_USE_POLICY_LIMIT, 1},
		"other":   {bursarv1.OverUsePolicy_OVER_USE_POLICY_WARN, 1},
	} {
		t.Run(action, func(t *testing.T) {
			overuse(t, newDesk(action), func(b *bench) {
				b.machine.uses(4*gib + gib/10) // of the tolerance a part
				b.settle(20)
				if len(b.reports) != 0 {
					t.Errorf("within the tolerance: %v", b.overUse)
				}
				began := time.Now()
				b.machine.uses(5 * gib)
				b.settle(20)
				over := &bursarv1.OverUse{Dimension: "memory", Used: 5 * gib, Entitled: 4 * gib, Policy: test.policy, Since: b.overUse[0].GetSince()}
				if !sameOverUse(b.overUse, []*bursarv1.OverUse{over}) {
					t.Errorf("reported: %v", b.overUse)
				}
				if late := b.reports[0].Sub(began); late > DefaultTick+2*syncGap {
					t.Errorf("reported %s after it began: heartbeats are a minute apart", late)
				}
				if got := b.held(); !sameOverUse(got.GetOverUse(), b.overUse) || got.GetEntitled().GetMemoryBytes() != 4*gib {
					t.Errorf("shown: %v", got)
				}
				if got := b.logged("level=WARN msg=\"an engine uses more"); got != test.warns {
					t.Errorf("%d warnings, want %d", got, test.warns)
				}
				b.machine.uses(4 * gib)
				began = time.Now()
				b.settle(20)
				if len(b.overUse) != 0 || len(b.reports) != 2 || b.reports[1].Sub(began) > DefaultTick+2*syncGap {
					t.Errorf("reported after it ended: %v, at %v", b.overUse, b.reports)
				}
				if got := b.held().GetOverUse(); len(got) != 0 {
					t.Errorf("shown after it ended: %v", got)
				}
				if got := b.logged("level=INFO msg=\"an engine keeps to"); got != test.warns {
					t.Errorf("%d lines about its end, want %d", got, test.warns)
				}
				if len(b.asked) != 0 {
					t.Error("a stop was asked for")
				}
			})
		})
	}
}

func TestEngineInOverUseIsStoppedThroughTheCoordinatorAfterTheGrace(t *testing.T) {
	overuse(t, newDesk("kill"), func(b *bench) {
		b.machine.uses(5 * gib)
		b.settle(1)
		began := time.Now()
		stop := b.overUse[0].GetStopTime().AsTime()
		if late := stop.Sub(began); late > 30*time.Second || late <= 25*time.Second {
			t.Errorf("it is said to be stopped in %s", late)
		}
		b.machine.uses(5*gib + gib/5)
		b.settle(5)
		if len(b.asked) != 0 {
			t.Fatalf("asked for before the grace: %v", b.asked)
		}
		b.settle(3)
		if len(b.asked) != 1 || b.asked[0].Before(stop) || b.asked[0].After(stop.Add(DefaultTick)) {
			t.Fatalf("asked for at %v, want once, at %v or a tick later", b.asked, stop)
		}
		if b.request.GetId() != "e" || b.request.GetGrace().AsDuration() != 10*time.Second ||
			b.request.GetReason() != "uses 5.2GiB of memory, is entitled to 4GiB, for 30s (policy kill)" {
			t.Errorf("asked for %v", b.request)
		}
		if !b.ordered || b.logged("an engine is stopped") == 0 {
			t.Error("the order has not come back and been followed")
		}
		b.settle(30)
		if len(b.asked) != 1 {
			t.Errorf("asked for %d times, though it is stopping already", len(b.asked))
		}
		b.machine.set(func() { b.machine.gone = true })
		b.settle(2)
		if got := b.ended.GetReason(); got != "stopped: "+b.request.GetReason() {
			t.Errorf("it ended for %q", got)
		}
	})
}

func TestEngineThatGivesBackWithinTheGraceGoesOn(t *testing.T) {
	overuse(t, newDesk("kill"), func(b *bench) {
		for range 20 {
			b.machine.uses(6 * gib)
			b.settle(5)
			b.machine.uses(4 * gib)
			b.settle(2)
		}
		if len(b.asked) != 0 || b.ended != nil || len(b.reports) != 40 {
			t.Errorf("%d stops asked for, %d reports: %v", len(b.asked), len(b.reports), b.ended)
		}
	})
}

func TestEntitlementThatGrowsEndsOverUse(t *testing.T) {
	overuse(t, newDesk("kill"), func(b *bench) {
		b.machine.uses(6 * gib)
		b.settle(5)
		b.do(func() {
			b.put(func(a *bursarv1.Allocation) { a.Entitled = &bursarv1.Resource{MemoryBytes: new(6 * gib)} })
		})
		b.agent.syncDue.by(time.Now())
		b.settle(20)
		if len(b.asked) != 0 || len(b.overUse) != 0 {
			t.Errorf("%d stops asked for: %v", len(b.asked), b.overUse)
		}
	})
}

func TestNothingIsStoppedWhileNoCoordinatorAnswers(t *testing.T) {
	overuse(t, newDesk("kill"), func(b *bench) {
		b.do(func() { b.away = true })
		b.agent.syncDue.by(time.Now())
		b.settle(1)
		b.machine.uses(6 * gib)
		b.settle(720) // an hour
		if len(b.asked) != 0 || b.logged("an engine is stopped") != 0 {
			t.Errorf("asked for %d times", len(b.asked))
		}
		b.do(func() { b.away = false })
		back := time.Now()
		b.settle(3)
		if len(b.asked) != 1 || b.asked[0].Sub(back) > 2*DefaultTick {
			t.Errorf("asked for at %v, want once, soon after %v", b.asked, back)
		}
	})
}

func TestStopThatNobodyHeardIsAskedForWithTheNextMeasurement(t *testing.T) {
	overuse(t, newDesk("kill"), func(b *bench) {
		b.do(func() { b.refuses = errAway })
		b.machine.uses(6 * gib)
		b.settle(10)
		if n := len(b.asked); n < 3 || n > 5 {
			t.Errorf("asked for %d times in 15 s", n)
		}
		b.do(func() { b.refuses = nil })
		b.settle(2)
		if !b.ordered {
			t.Error("not stopped in the end")
		}
	})
}

func TestStopThatIsRefusedIsAskedForOnceAGrace(t *testing.T) {
	d := newDesk("kill")
	d.refuses = connect.NewError(connect.CodePermissionDenied, errors.New("no"))
	overuse(t, d, func(b *bench) {
		b.machine.uses(6 * gib)
		b.settle(1 + 6*10 + 1)
		if n := len(b.asked); n != 10 {
			t.Errorf("asked for %d times in 10 graces", n)
		}
		for i := 1; i < len(b.asked); i++ {
			if gap := b.asked[i].Sub(b.asked[i-1]); gap < 30*time.Second {
				t.Errorf("asked for again after %s", gap)
			}
		}
		if b.logged("level=ERROR") != len(b.asked) {
			t.Error("a refusal is not told of")
		}
	})
}

// An order of the coordinator that is lost with a backup does not protect the engine for ever.
func TestStopIsAskedForAgainWhereTheCoordinatorHasForgotten(t *testing.T) {
	overuse(t, newDesk("kill"), func(b *bench) {
		b.machine.uses(6 * gib)
		b.settle(8)
		b.do(func() {
			b.order = nil
			b.put(func(a *bursarv1.Allocation) { a.Stopping = false })
		})
		b.agent.syncDue.by(time.Now())
		b.settle(8)
		if len(b.asked) != 2 {
			t.Errorf("asked for %d times, want again after a grace", len(b.asked))
		}
	})
}

func TestWhatCannotBeMeasuredIsNotStopped(t *testing.T) {
	overuse(t, newDesk("kill"), func(b *bench) {
		b.machine.uses(6 * gib)
		b.settle(4)
		b.machine.set(func() { b.machine.used, b.machine.err = 0, errors.New("no such file") })
		b.settle(4)
		if len(b.overUse) != 1 || len(b.asked) != 0 {
			t.Errorf("while it is not known: %v, %d stops asked for", b.overUse, len(b.asked))
		}
		b.settle(20)
		if len(b.overUse) != 0 || len(b.asked) != 0 {
			t.Errorf("when it has not been known for long: %v, %d stops asked for", b.overUse, len(b.asked))
		}
		b.machine.set(func() { b.machine.used, b.machine.err = 6*gib, nil })
		b.settle(6)
		if len(b.overUse) != 1 || len(b.asked) != 0 {
			t.Errorf("it begins anew: %v, %d stops asked for", b.overUse, len(b.asked))
		}
		b.settle(2)
		if len(b.asked) != 1 {
			t.Errorf("%d stops asked for", len(b.asked))
		}
	})
}

// What it knows of over-use ends with an agent: the next one begins anew, and stops nothing sooner for it.
func TestRestartedAgentBeginsTheGraceAnew(t *testing.T) {
	d := newDesk("kill")
	overuse(t, d, func(b *bench) {
		b.machine.uses(6 * gib)
		b.settle(6)
	})
	d.engine = proto.CloneOf(d.engine)
	d.engine.OverUse = d.overUse // as the ledger has it
	overuse(t, d, func(b *bench) {
		b.machine.uses(6 * gib)
		b.settle(5)
		if len(b.asked) != 0 {
			t.Errorf("asked for at %v", b.asked)
		}
		if ahead := time.Until(b.overUse[0].GetStopTime().AsTime()); len(b.reports) == 0 || ahead <= 0 {
			t.Errorf("reported: %v", b.overUse)
		}
		b.settle(3)
		if len(b.asked) != 1 {
			t.Errorf("asked for %d times", len(b.asked))
		}
	})
}
