package coordinator

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

func newMemoryStore() store.Store { return storetest.NewMemory("test").Open() }

// wallClock is a clock that can be set, over the time of a synctest bubble.
type wallClock struct {
	start time.Time
	shift time.Duration
}

func (c *wallClock) Now() time.Time { return time.Now().Add(c.shift) }

func (c *wallClock) Elapsed() time.Duration { return time.Since(c.start) }

// desk is a writer that runs, without sockets.
type desk struct {
	*writer
	t testing.TB
}

// runWriter starts a writer. Its limits may be changed before it runs. It is stopped by close.
func runWriter(tb testing.TB, s store.Store, change func(*Config)) *desk {
	tb.Helper()
	d := newDesk(tb, s, change)
	lead(tb, d.writer)
	return d
}

// newDesk is one whose writer does not run yet.
func newDesk(tb testing.TB, s store.Store, change func(*Config)) *desk {
	tb.Helper()
	config := Config{}
	if change != nil {
		change(&config)
	}
	config = config.WithDefaults()
	books := core.NewCore(config.ledger(), func() ledger.Placer { return placement.New(placement.Spread) }, core.DrawLeadership)
	clock := core.NewSteady(&wallClock{start: time.Now()})
	w := newWriter(books, s, clock, &config, newFeed(config.Limits.WatchEvents, int(config.Limits.WatchBytes)), newMeter(prometheus.NewRegistry()), slog.New(slog.DiscardHandler))
	return &desk{writer: w, t: tb}
}

// lead runs a writer that nobody competes with. It leads when lead returns.
func lead(tb testing.TB, w *writer) {
	tb.Helper()
	first := make(chan error, 1)
	campaign := &leadership{election: election.Alone(func() string { return "" }), writer: w, heard: func() []uint64 { return nil }, log: w.log}
	go w.run()
	go func() { _ = campaign.run(context.Background(), first) }()
	if err := <-first; err != nil {
		tb.Fatal(err)
	}
}

func (d *desk) close() {
	d.stop()
	<-d.done
}

// host adds a host with so much memory, which never fails to report.
func (d *desk) host(memory int64) {
	d.t.Helper()
	_, err := decide(d.t.Context(), d.writer, func(l *ledger.Ledger, now ledger.Instant) (struct{}, error) {
		capacity := resource.Vector{}.WithMemory(memory).WithCPU(1 << 30).WithInstances(1 << 30)
		_, err := l.Register(now, ledger.RegisterCommand{HostID: "h", Capacity: capacity, Incarnation: 1})
		return struct{}{}, err
	})
	if err != nil {
		d.t.Fatal(err)
	}
	d.report(memory, 1)
}

func (d *desk) report(memory int64, sequence uint64) {
	d.t.Helper()
	_, err := decide(d.t.Context(), d.writer, func(l *ledger.Ledger, now ledger.Instant) (ledger.SyncResult, error) {
		return l.Sync(now, ledger.SyncCommand{
			HostID: "h", Incarnation: 1, Sequence: sequence, Full: true, Seen: l.Revision(), Sample: &ledger.Sample{MemoryAvailable: &memory},
		})
	})
	if err != nil {
		d.t.Fatal(err)
	}
}

func (d *desk) allocate(ctx context.Context, id string, memory int64, wait time.Duration) (ledger.Allocation, error) {
	result, err := d.ask(ctx, &ledger.AllocateCommand{
		Actor: identity.Local(), RequestID: id, Labels: label.Of("user", "alice"), Wait: wait,
		Resource: resource.NewResource(resource.Vector{}.WithMemory(memory)),
	})
	return result.Allocation, err
}

func (d *desk) counts() ledger.Counts {
	d.t.Helper()
	v, err := d.look(d.t.Context())
	if err != nil {
		d.t.Fatal(err)
	}
	return v.Counts
}

// lost are what a caller may hear whose command was in a batch that is not known to be durable, or came just after.
func lost(err error) bool {
	_, commit := errors.AsType[*CommitError](err)
	return commit || errors.Is(err, core.ErrNotLeading)
}
