package clusters

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/bursar/bursar/coordinator/commit"
	"github.com/bursar/bursar/coordinator/core"
	"github.com/bursar/bursar/coordinator/election"
	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/placement"
	"github.com/bursar/bursar/coordinator/store"
	"github.com/bursar/bursar/resource"
)

// monotonic is a clock that is never set.
type monotonic time.Time

func (m monotonic) Now() time.Time { return time.Now() }

func (m monotonic) Elapsed() time.Duration { return time.Since(time.Time(m)) }

// loopRig is a loop without a server around it.
type loopRig struct {
	*commit.Loop
	t testing.TB
}

// newLoopRig returns a rig whose loop does not run yet.
func newLoopRig(tb testing.TB, s store.Store, change func(*commit.Options)) *loopRig {
	tb.Helper()
	options := commit.Options{
		Store: s, Clock: core.NewSteady(monotonic(time.Now())), Feed: commit.NewChangeFeed(1024, 1<<20),
		Metrics: commit.NewMetrics(prometheus.NewRegistry()), Log: slog.New(slog.DiscardHandler),
		Queue: 8192, Batch: 1024, CommitTimeout: 5 * time.Second, Remember: 24 * time.Hour,
		History: commit.HistoryBounds{Retention: 30 * 24 * time.Hour, CallerBytes: 2 << 30, PruneEvery: 10 * time.Second, PruneStep: 500},
	}
	if change != nil {
		change(&options)
	}
	c := core.NewCore(ledger.Config{CallerLiveBytes: ledger.CallerLiveBytes}, func() ledger.Placer { return placement.New(placement.Spread) }, core.DrawLeadership)
	return &loopRig{Loop: commit.New(c, options), t: tb}
}

// runLoop starts a loop, which close ends.
func runLoop(tb testing.TB, s store.Store, change func(*commit.Options)) *loopRig {
	tb.Helper()
	d := newLoopRig(tb, s, change)
	lead(tb, d.Loop)
	return d
}

// lead runs a loop without competitors until it leads.
func lead(tb testing.TB, loop *commit.Loop) {
	tb.Helper()
	first := make(chan error, 1)
	campaign := &commit.Campaign{Election: election.Alone(func() string { return "" }), Loop: loop, Announced: func() []uint64 { return nil }, Log: loop.Log}
	go loop.Run()
	go func() { _ = campaign.Run(context.Background(), first) }()
	if err := <-first; err != nil {
		tb.Fatal(err)
	}
}

func (d *loopRig) close() {
	d.Stop()
	<-d.Ended()
}

// host adds a host with this memory, which never fails to report.
func (d *loopRig) host(memory int64) {
	d.t.Helper()
	err := d.Do(d.t.Context(), func(l *ledger.Ledger, now ledger.Instant) {
		capacity := resource.Vector{}.WithMemory(memory).WithCPU(1 << 30).WithInstances(1 << 30)
		if _, err := l.Register(now, ledger.RegisterCommand{HostID: "h", Capacity: capacity, Incarnation: 1}); err != nil {
			d.t.Error(err)
		}
		if _, err := l.Sync(now, ledger.SyncCommand{
			HostID: "h", Incarnation: 1, Sequence: 1, Full: true, Seen: l.Revision(), Sample: &ledger.Sample{MemoryAvailable: &memory},
		}); err != nil {
			d.t.Error(err)
		}
	})
	if err != nil {
		d.t.Fatal(err)
	}
}
