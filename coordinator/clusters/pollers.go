package clusters

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/bursar/bursar/coordinator/commit"
	"github.com/bursar/bursar/coordinator/core"
	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/providers"
)

// Pollers reads external clusters while this coordinator leads, each in its own goroutine. The
// ledger's providers define the clusters. Readings go through the loop like any command. They are
// dropped once the term is over or the provider has changed.
type Pollers struct {
	loop        *commit.Loop
	Kinds       providers.Kinds
	Credentials Credentials
	random      func() float64 // from 0 to 1; safe for concurrent use
	metrics     *Metrics
	log         *slog.Logger

	wake chan struct{} // capacity 1

	mu      sync.Mutex
	running map[ledger.ClusterName]*poller // guarded by mu
}

// Health is the state of reading a cluster.
type Health struct {
	Server       string // the server that answered last
	Took         time.Duration
	Interval     time.Duration // until the next reading
	Applications int
	Message      string // the latest problem; empty: none
	Failures     int32  // since the last successful reading
	failingSince ledger.Instant
	FailedAt     ledger.Instant
}

// New returns pollers that read nothing before Run. random returns numbers from 0 to 1 and must be
// safe for concurrent use.
func New(loop *commit.Loop, kinds providers.Kinds, dir Credentials, random func() float64, m *Metrics, log *slog.Logger) *Pollers {
	return &Pollers{
		loop: loop, Kinds: kinds, Credentials: dir, random: random, metrics: m, log: log,
		wake: make(chan struct{}, 1), running: make(map[ledger.ClusterName]*poller),
	}
}

// Changed announces that the set of clusters to read may have changed. It does not block.
func (p *Pollers) Changed() {
	select {
	case p.wake <- struct{}{}:
	default: // already announced
	}
}

// Run reads until ctx ends. All of its goroutines have ended when it returns.
func (p *Pollers) Run(ctx context.Context) {
	var all sync.WaitGroup
	defer all.Wait()
	defer p.follow(ctx, nil, &all)
	for {
		select {
		case <-p.wake:
		case <-ctx.Done():
			return
		}
		wanted, err := p.loop.Assignments(ctx)
		if err != nil {
			wanted = nil // not the leader; the next term calls Changed
		}
		p.follow(ctx, wanted, &all)
	}
}

// follow stops the pollers that are no longer wanted, and starts new ones.
func (p *Pollers) follow(ctx context.Context, wanted []core.Assignment, all *sync.WaitGroup) {
	p.mu.Lock()
	defer p.mu.Unlock()
	ended := make(map[ledger.ClusterName]<-chan struct{})
	for name, r := range p.running {
		if slices.ContainsFunc(wanted, func(a core.Assignment) bool { return a.Same(&r.Assignment) }) {
			continue
		}
		r.end()
		ended[name] = r.ended
		delete(p.running, name)
		p.metrics.forget(name)
	}
	for _, a := range wanted {
		if p.running[a.ClusterName] != nil {
			continue
		}
		after := ended[a.ClusterName]
		if after == nil {
			after = closedChannel()
		}
		own, end := context.WithCancel(ctx)
		r := &poller{
			Assignment: a, pollers: p, log: p.log.With("cluster", a.String()), after: after, end: end, ended: make(chan struct{}),
		}
		p.running[a.ClusterName] = r
		all.Go(func() { r.run(own) })
	}
}

// closedChannel returns a closed channel.
func closedChannel() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}

// Open opens the provider of a record; its texts are safe to show. Errors: *providers.KindError,
// *providers.SettingError, and others for a record that must not be opened.
func (p *Pollers) Open(record *ledger.ProviderRecord) (providers.Provider, providers.Pace, error) {
	kind, err := p.Kinds.Find(record.Kind)
	if err != nil {
		return nil, providers.Pace{}, err
	}
	if _, only := kind.(providers.FileOnly); only && !record.FromFile() {
		return nil, providers.Pace{}, fmt.Errorf("a provider of kind %s that is not in the file of providers: want %s", record.Kind, providers.WantFile)
	}
	pace, err := providers.PaceFrom(record.Settings)
	if err != nil {
		return nil, pace, err
	}
	settings, err := p.Credentials.settings(kind, record)
	if err != nil {
		return nil, pace, err
	}
	opened, err := kind.Open(record.Cluster, settings)
	if err != nil {
		return nil, pace, err
	}
	return providers.Clean(opened), pace, nil
}

// jitter returns a duration near d.
func (p *Pollers) jitter(d time.Duration) time.Duration {
	return time.Duration(float64(d) * (1 - spread + 2*spread*p.random()))
}

// ifRunning calls run to publish a poller's results, unless the cluster has another poller now.
func (p *Pollers) ifRunning(r *poller, run func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.running[r.ClusterName] == r {
		run()
	}
}

// HealthOf returns the health of a cluster; the zero value if it has not been read yet.
func (p *Pollers) HealthOf(name ledger.ClusterName) Health {
	p.mu.Lock()
	defer p.mu.Unlock()
	if r := p.running[name]; r != nil {
		return r.shown
	}
	return Health{}
}

// Warnings describes the clusters that cannot be read at the moment, or whose last reading had a
// problem.
func (p *Pollers) Warnings() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var list []string
	for _, name := range slices.SortedFunc(maps.Keys(p.running), ledger.ClusterName.Compare) {
		switch h := p.running[name].shown; {
		case h.Failures > 0:
			list = append(list, fmt.Sprintf("cluster %s cannot be read since %s: %s", name, h.failingSince.Time().UTC().Format(time.RFC3339), h.Message))
		case h.Message != "":
			list = append(list, fmt.Sprintf("cluster %s: %s", name, h.Message))
		}
	}
	return list
}
