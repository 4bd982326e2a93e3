package coordinator

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

// pollers read external clusters while this coordinator leads, each in a goroutine of its own: those that the ledger has providers for, in
// the leadership that it has them in. What they read goes through the writer like any command, and is nothing any more once
// the leadership is over or the provider has changed.
type pollers struct {
	writer      *commit.Loop
	kinds       providers.Kinds
	credentials credentials
	random      func() float64 // from 0 to 1; by any goroutine
	meter       *clusterMeter
	log         *slog.Logger

	wake chan struct{} // holds one

	mu      sync.Mutex
	running map[ledger.ClusterName]*poller // guarded by mu
}

// health is how the reading of a cluster goes.
type health struct {
	server       string // that answered last
	took         time.Duration
	interval     time.Duration // until the next
	applications int
	message      string // what was wrong last; empty: nothing
	failures     int32  // since it was last read
	failingSince ledger.Instant
	failedAt     ledger.Instant
}

func newPollers(w *commit.Loop, kinds providers.Kinds, dir credentials, random func() float64, m *clusterMeter, log *slog.Logger) *pollers {
	return &pollers{
		writer: w, kinds: kinds, credentials: dir, random: random, meter: m, log: log,
		wake: make(chan struct{}, 1), running: make(map[ledger.ClusterName]*poller),
	}
}

// changed says that other clusters may have to be read than before. It does not block.
func (p *pollers) changed() {
	select {
	case p.wake <- struct{}{}:
	default: // it has been said
	}
}

// run reads until ctx ends. No goroutine of it is left when it returns.
func (p *pollers) run(ctx context.Context) {
	var all sync.WaitGroup
	defer all.Wait()
	defer p.follow(ctx, nil, &all)
	for {
		select {
		case <-p.wake:
		case <-ctx.Done():
			return
		}
		wanted, err := p.writer.Assignments(ctx)
		if err != nil {
			wanted = nil // it does not lead; who leads next says so
		}
		p.follow(ctx, wanted, &all)
	}
}

// follow ends the pollers that are not wanted any more, and begins those that are.
func (p *pollers) follow(ctx context.Context, wanted []core.Assignment, all *sync.WaitGroup) {
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
		p.meter.forget(name)
	}
	for _, a := range wanted {
		if p.running[a.ClusterName] != nil {
			continue
		}
		after := ended[a.ClusterName]
		if after == nil {
			after = closed()
		}
		own, end := context.WithCancel(ctx)
		r := &poller{
			Assignment: a, pollers: p, log: p.log.With("cluster", a.String()), after: after, end: end, ended: make(chan struct{}),
		}
		p.running[a.ClusterName] = r
		all.Go(func() { r.run(own) })
	}
}

// closed is a channel that is.
func closed() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}

// open makes a provider of its record. The errors are *providers.KindError and *providers.SettingError.
func (p *pollers) open(record *ledger.ProviderRecord) (providers.Provider, providers.Pace, error) {
	kind, err := p.kinds.Find(record.Kind)
	if err != nil {
		return nil, providers.Pace{}, err
	}
	pace, err := providers.PaceFrom(record.Settings)
	if err != nil {
		return nil, pace, err
	}
	settings, err := p.credentials.settings(kind, record)
	if err != nil {
		return nil, pace, err
	}
	opened, err := kind.Open(record.Cluster, settings)
	return opened, pace, err
}

// jitter is about as long as a time.
func (p *pollers) jitter(d time.Duration) time.Duration {
	return time.Duration(float64(d) * (1 - spread + 2*spread*p.random()))
}

// show runs something that shows how a poller's cluster goes, unless that one is not the cluster's any more.
func (p *pollers) show(r *poller, run func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.running[r.ClusterName] == r {
		run()
	}
}

// healthOf is how the reading of a cluster goes; the zero value where it has not been read yet.
func (p *pollers) healthOf(name ledger.ClusterName) health {
	p.mu.Lock()
	defer p.mu.Unlock()
	if r := p.running[name]; r != nil {
		return r.shown
	}
	return health{}
}

// warnings says which clusters cannot be read at the moment.
func (p *pollers) warnings() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var list []string
	for _, name := range slices.SortedFunc(maps.Keys(p.running), ledger.ClusterName.Compare) {
		switch h := p.running[name].shown; {
		case h.failures > 0:
			list = append(list, fmt.Sprintf("cluster %s cannot be read since %s: %s", name, h.failingSince.Time().UTC().Format(time.RFC3339), h.message))
		case h.message != "":
			list = append(list, fmt.Sprintf("cluster %s: %s", name, h.message))
		}
	}
	return list
}
