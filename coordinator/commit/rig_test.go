package commit

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/bursar/bursar/coordinator/core"
	"github.com/bursar/bursar/coordinator/election"
	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/placement"
	"github.com/bursar/bursar/coordinator/store"
	"github.com/bursar/bursar/coordinator/store/storetest"
	"github.com/bursar/bursar/internal/identity"
	"github.com/bursar/bursar/label"
	"github.com/bursar/bursar/resource"
)

func NewMemoryStore() store.Store { return storetest.NewMemory("test").Open() }

// wallClock is a clock that can be set, over the time of a synctest bubble.
type wallClock struct {
	start time.Time
	shift time.Duration
}

func (c *wallClock) Now() time.Time { return time.Now().Add(c.shift) }

func (c *wallClock) Elapsed() time.Duration { return time.Since(c.start) }

// loopRig is a loop that runs, without sockets.
type loopRig struct {
	*Loop
	t testing.TB
}

// setup has the parts of a loop.
type setup struct {
	Options

	Ledger ledger.Config
	// WatchEvents and WatchBytes bound the feed.
	WatchEvents, WatchBytes int
}

func defaults(s store.Store, clock core.Clock) *setup {
	return &setup{
		Options: Options{
			Store: s, Clock: core.NewSteady(clock), Metrics: NewMetrics(prometheus.NewRegistry()), Log: slog.New(slog.DiscardHandler),
			Queue: 8192, Batch: 1024, CommitTimeout: 5 * time.Second, Remember: 24 * time.Hour, Origin: originOfTest,
			History: HistoryBounds{Retention: 30 * 24 * time.Hour, CallerBytes: 2 << 30, PruneEvery: 10 * time.Second, PruneStep: 500},
		},
		Ledger:      ledger.Config{RequestRetention: 24 * time.Hour, CallerLiveBytes: ledger.CallerLiveBytes},
		WatchEvents: 16384, WatchBytes: 32 << 20,
	}
}

// callerContext is the context of a call of a name.
func callerContext(ctx context.Context, name string) context.Context {
	return context.WithValue(ctx, originKey{}, &core.Origin{Procedure: "/List", Caller: name})
}

type originKey struct{}

func originOfTest(ctx context.Context) *core.Origin {
	origin, _ := ctx.Value(originKey{}).(*core.Origin)
	return origin
}

func (s *setup) loop() *Loop {
	s.Feed = NewChangeFeed(s.WatchEvents, s.WatchBytes)
	return New(core.NewCore(s.Ledger, func() ledger.Placer { return placement.New(placement.Spread) }, core.DrawLeadership), s.Options)
}

// runLoop starts a loop. Its limits may be changed before it runs. It is stopped by close.
func runLoop(tb testing.TB, s store.Store, change func(*setup)) *loopRig {
	tb.Helper()
	d := newLoopRig(tb, s, change)
	Lead(tb, d.Loop)
	return d
}

// newLoopRig is one whose loop does not run yet.
func newLoopRig(tb testing.TB, s store.Store, change func(*setup)) *loopRig {
	tb.Helper()
	made := defaults(s, &wallClock{start: time.Now()})
	if change != nil {
		change(made)
	}
	return &loopRig{Loop: made.loop(), t: tb}
}

// Lead runs a loop without competitors. The loop leads when Lead returns.
func Lead(tb testing.TB, loop *Loop) {
	tb.Helper()
	first := make(chan error, 1)
	go loop.Run()
	go func() { _ = campaignAlone(loop).Run(context.Background(), first) }()
	if err := <-first; err != nil {
		tb.Fatal(err)
	}
}

// campaignAlone returns a campaign without competitors.
func campaignAlone(loop *Loop) *Campaign {
	return &Campaign{Election: election.Alone(func() string { return "" }), Loop: loop, Announced: func() []uint64 { return nil }, Log: loop.Log}
}

func (d *loopRig) Close() {
	d.Stop()
	<-d.done
}

// Host adds a host with so much memory, which never fails to report.
func (d *loopRig) Host(memory int64) {
	d.t.Helper()
	_, err := Decide(d.t.Context(), d.Loop, func(l *ledger.Ledger, now ledger.Instant) (struct{}, error) {
		capacity := resource.Vector{}.WithMemory(memory).WithCPU(1 << 30).WithInstances(1 << 30)
		_, err := l.Register(now, ledger.RegisterCommand{HostID: "h", Capacity: capacity, Incarnation: 1})
		return struct{}{}, err
	})
	if err != nil {
		d.t.Fatal(err)
	}
	d.report(memory, 1)
}

func (d *loopRig) report(memory int64, sequence uint64) {
	d.t.Helper()
	_, err := Decide(d.t.Context(), d.Loop, func(l *ledger.Ledger, now ledger.Instant) (ledger.SyncResult, error) {
		return l.Sync(now, ledger.SyncCommand{
			HostID: "h", Incarnation: 1, Sequence: sequence, Full: true, Seen: l.Revision(), Sample: &ledger.Sample{MemoryAvailable: &memory},
		})
	})
	if err != nil {
		d.t.Fatal(err)
	}
}

func (d *loopRig) allocate(ctx context.Context, id string, memory int64, wait time.Duration) (ledger.Allocation, error) {
	command := requestOf("alice", memory)
	command.RequestID, command.Wait = id, wait
	result, err := d.Allocate(ctx, command)
	return result.Allocation, err
}

// requestOf is a request of a user for so much memory.
func requestOf(user string, memory int64) *ledger.AllocateCommand {
	return &ledger.AllocateCommand{
		Actor: identity.Local(), Labels: label.Of("user", user), Resource: resource.NewResource(resource.Vector{}.WithMemory(memory)),
	}
}

func (d *loopRig) counts() ledger.Counts {
	d.t.Helper()
	v, err := d.View(d.t.Context())
	if err != nil {
		d.t.Fatal(err)
	}
	return v.Counts
}

// lost reports whether an error is one of those for a command in a batch that may not be durable,
// or just after it.
func lost(err error) bool {
	_, commit := errors.AsType[*Error](err)
	return commit || errors.Is(err, core.ErrNotLeading)
}
