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

func (*greedy) Place() host.Place { return host.Place{} }

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

func (*greedy) Marks(host.Engine) host.Marks { return host.Marks{} }

func (g *greedy) Available(context.Context) (int64, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return 16*gib - g.used, nil
}

func (*greedy) Capacity(context.Context) (host.Capacity, error) {
	return host.Capacity{MemoryBytes: 16 * gib, CPUMillis: 4000}, nil
}

// Identify finds none of its processes, so that no signal is sent.
func (*greedy) Identify(int32) (host.Identity, error) { return host.Identity{}, host.ErrNoProcess }

// fakeCoordinator is a coordinator that holds one allocation, the engine "e" of 4 GiB.
type fakeCoordinator struct {
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

func newFakeCoordinator(action string) *fakeCoordinator {
	d := &fakeCoordinator{revision: 7, engine: &bursarv1.Allocation{
		Id: "e", HostId: "h1", State: bursarv1.AllocationState_ALLOCATION_STATE_ACTIVE, Revision: 7, Labels: map[string]string{"policy": action},
		Entitled: &bursarv1.Resource{MemoryBytes: new(4 * gib)}, Process: &bursarv1.Process{Pid: 4242, StartTime: 7, BootId: "boot-1"},
	}}
	return d
}

func (d *fakeCoordinator) do(f func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f()
}

// put changes the allocation; the caller holds mu.
func (d *fakeCoordinator) put(change func(a *bursarv1.Allocation)) *bursarv1.Allocation {
	d.revision++
	d.engine = proto.CloneOf(d.engine)
	d.engine.Revision = d.revision
	change(d.engine)
	return d.engine
}

var errAway = connect.NewError(connect.CodeUnavailable, errors.New("away"))

// fakeHosts and fakeAllocations are its two services.
type (
	fakeHosts struct {
		bursarv1connect.HostServiceClient
		*fakeCoordinator
	}
	fakeAllocations struct {
		bursarv1connect.AllocationServiceClient
		*fakeCoordinator
	}
)

func (d fakeHosts) Register(context.Context, *bursarv1.RegisterRequest) (*bursarv1.RegisterResponse, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.away {
		return nil, errAway
	}
	return &bursarv1.RegisterResponse{Epoch: 1, Interval: durationpb.New(5 * time.Second)}, nil
}

func (d fakeHosts) Sync(_ context.Context, q *bursarv1.SyncRequest) (*bursarv1.SyncResponse, error) {
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

func (d fakeAllocations) Stop(_ context.Context, q *bursarv1.StopRequest) (*bursarv1.StopResponse, error) {
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
	*fakeCoordinator

	machine *greedy
	agent   *Agent
	log     bytes.Buffer // guarded by the fakeCoordinator's mu; read when nothing runs
}

// settle lets so many ticks pass and everything that they begin end.
func (b *bench) settle(ticks int) {
	b.Helper()
	b.do(func() {}) // what the test has read comes before what is written now
	time.Sleep(time.Duration(ticks) * DefaultTick)
	synctest.Wait()
}

// Write adds to the log.
func (b *bench) Write(text []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.log.Write(text)
}

func (b *bench) held() *bursarv1.Allocation {
	b.Helper()
	list := b.agent.state.Allocations()
	if len(list) != 1 {
		b.Fatalf("it holds %v", list)
	}
	return list[0]
}

// logged is how often the log has a text.
func (b *bench) logged(text string) int { return strings.Count(b.log.String(), text) }

// overuse runs an agent whose policies are named by the label "policy", until f returns.
func overuse(t *testing.T, d *fakeCoordinator, f func(b *bench)) {
	t.Helper()
	dir, err := statefile.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	proc := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		b := &bench{T: t, fakeCoordinator: d, machine: &greedy{used: gib}}
		config := Config{HostID: "h1"}
		for _, action := range []string{"observe", "warn", "limit", "kill"} {
			config.Engines.Policies = append(config.Engines.Policies, PolicyConfig{Match: map[string]string{"policy": action}, OnOverUse: action})
		}
		if b.agent, err = New(config, Deps{
			Allocations: fakeAllocations{fakeCoordinator: d}, Hosts: fakeHosts{fakeCoordinator: d}, Meter: b.machine, Proc: proc,
			Logger: slog.New(slog.NewTextHandler(b, &slog.HandlerOptions{Level: slog.LevelDebug})),
		}); err != nil {
			t.Fatal(err)
		}
		a := b.agent
		a.state.Open(dir, "boot-1", 1)
		a.state.Begin(tracker.New(time.Now(), tracker.Host{ID: "h1", BootID: "boot-1", Incarnation: 1}, tracker.Snapshot{
			BootID: "boot-1", Engines: []*bursarv1.Allocation{d.engine},
		}))
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 2)
		go func() { ended <- a.measureLoop(ctx) }()
		go func() { ended <- a.reports.Loop(ctx) }()
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
