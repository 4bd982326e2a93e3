// Package fakecluster has a kind of external clusters that are as a test says. Its clusters stand
// in for systems outside, so that several coordinators may share one. Any goroutine may use them.
package fakecluster

import (
	"context"
	"errors"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bursar/bursar/providers"
	"github.com/bursar/bursar/resource"
)

// Kind is a kind of clusters that are as the test says. Its clusters stand in for systems outside,
// so that several coordinators may share one.
type Kind struct {
	mu sync.Mutex
	// Guarded by mu, with all that is in them; by the setting "address".
	clusters map[string]*Cluster
	open     int               // guarded by mu: providers that are open
	settings map[string]string // guarded by mu: that a provider was opened with last
}

// Cluster is one of them. Change it in with.
type Cluster struct {
	Kind *Kind // it is of

	Queues       []providers.Queue
	Applications map[string]providers.Application
	Incarnation  string
	Untrusted    string
	Err          error // of reading queues
	Partly       error // of asking for applications, after the first
	Panics       string
	Takes        time.Duration // until it answers
	Hangs        bool          // it does not

	reads []time.Time // when it was read
	Asked [][]string  // the applications that it was asked for
	busy  bool
	Twice bool // it was asked for two things at once, by one provider or by two
	Wrong bool // it was asked for applications before its queues
}

// New returns a kind without clusters.
func New() *Kind { return &Kind{clusters: make(map[string]*Cluster)} }

// Cluster is the cluster at an address. If there is none it is made, with queues root, of 8 GiB,
// and root.a and root.b, of 4 GiB each, and 100 cores.
func (k *Kind) Cluster(address string) *Cluster {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.clusters[address] == nil {
		k.clusters[address] = &Cluster{
			Kind: k, Applications: make(map[string]providers.Application),
			Queues: []providers.Queue{NewQueue("root", 8<<30), NewQueue("root.a", 4<<30), NewQueue("root.b", 4<<30)},
		}
	}
	return k.clusters[address]
}

// NewQueue returns a running queue of so many bytes and 100 cores.
func NewQueue(path string, memory int64) providers.Queue {
	q := providers.Queue{Path: path, State: "RUNNING", Limit: resource.Vector{}.WithMemory(memory).WithCPU(100_000)}
	for i := len(path) - 1; i > 0; i-- {
		if path[i] == '.' {
			q.Parent = path[:i]
			break
		}
	}
	return q
}

// With changes or reads the cluster.
func (c *Cluster) With(f func(c *Cluster)) {
	c.Kind.mu.Lock()
	defer c.Kind.mu.Unlock()
	f(c)
}

// Uses says what the applications of root.a hold.
func (c *Cluster) Uses(memory int64) {
	c.With(func(c *Cluster) {
		for i := range c.Queues {
			if q := &c.Queues[i]; q.Path == "root" || q.Path == "root.a" {
				q.Used = resource.Vector{}.WithMemory(memory)
			}
		}
	})
}

// Times is when it was read, and forgets it.
func (c *Cluster) Times() (reads []time.Time) {
	c.With(func(c *Cluster) { reads, c.reads = c.reads, nil })
	return reads
}

// Name implements providers.Kind.
func (*Kind) Name() string { return "fake" }

// Files implements providers.Kind.
func (*Kind) Files() []string { return []string{"secretFile"} }

// Check implements providers.Kind.
func (*Kind) Check(settings map[string]string) error {
	for name, value := range settings {
		if name != "address" && name != "secretFile" && !slices.Contains(providers.SettingNames(providers.PaceSettings()), name) {
			return &providers.SettingError{Setting: name, Value: value, Want: "a known setting"}
		}
	}
	if settings["address"] == "" {
		return &providers.SettingError{Setting: "address", Want: "where it is"}
	}
	_, err := providers.PaceFrom(settings)
	return err
}

// Open implements providers.Kind.
func (k *Kind) Open(_ string, settings map[string]string) (providers.Provider, error) {
	if name := settings["secretFile"]; name != "" {
		if _, err := os.ReadFile(name); err != nil { //nolint:gosec // the test names it
			return nil, &providers.SettingError{Setting: "secretFile", Value: name, Want: "a file that can be read"}
		}
	}
	c := k.Cluster(settings["address"])
	k.mu.Lock()
	defer k.mu.Unlock()
	k.open++
	k.settings = settings
	return &fakeProvider{cluster: c}, nil
}

// OpenedWith are the settings that a provider was opened with last. Nobody may change them.
func (k *Kind) OpenedWith() map[string]string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.settings
}

// ProvidersOpen is how many providers are open.
func (k *Kind) ProvidersOpen() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.open
}

// fakeProvider reads a fakeCluster.
type fakeProvider struct {
	cluster  *Cluster
	read     bool
	closed   bool
	requests atomic.Int64
}

// Requests implements providers.Counted: one for queues and one for applications.
func (p *fakeProvider) Requests() int64 { return p.requests.Load() }

func (p *fakeProvider) Snapshot(ctx context.Context) (s providers.Snapshot, err error) {
	var takes time.Duration
	var hangs bool
	var panics string
	p.requests.Add(1)
	p.cluster.With(func(c *Cluster) {
		c.reads = append(c.reads, time.Now())
		c.Twice = c.Twice || c.busy
		c.busy, p.read = true, true
		takes, hangs, panics = c.Takes, c.Hangs, c.Panics
	})
	defer p.cluster.With(func(c *Cluster) { c.busy = false })
	if panics != "" {
		panic(panics)
	}
	if hangs {
		<-ctx.Done()
		return s, &providers.UnavailableError{Err: ctx.Err()}
	}
	if takes > 0 {
		select {
		case <-time.After(takes):
		case <-ctx.Done():
			return s, &providers.UnavailableError{Err: ctx.Err()}
		}
	}
	p.cluster.With(func(c *Cluster) {
		s = providers.Snapshot{Server: "rm1", Incarnation: c.Incarnation, Untrusted: c.Untrusted, Queues: slices.Clone(c.Queues)}
		err = c.Err
	})
	return s, err
}

func (p *fakeProvider) Applications(_ context.Context, ids []string) (list []providers.Application, err error) {
	p.requests.Add(1)
	p.cluster.With(func(c *Cluster) {
		c.Twice, c.Wrong = c.Twice || c.busy, c.Wrong || !p.read
		c.Asked = append(c.Asked, ids)
		for i, id := range ids {
			if i > 0 && c.Partly != nil {
				err = c.Partly
				return
			}
			a := c.Applications[id]
			a.ID = id
			list = append(list, a)
		}
	})
	return list, err
}

func (p *fakeProvider) Servers(context.Context) (list []providers.Server) {
	p.cluster.With(func(c *Cluster) {
		list = []providers.Server{{Address: "rm1", Role: "active", Version: "1", Err: c.Err}, {Address: "rm2", Err: errors.New("refused")}}
	})
	return list
}

func (p *fakeProvider) Close() error {
	p.cluster.With(func(c *Cluster) {
		if p.closed {
			panic("closed twice")
		}
		p.closed = true
		c.Kind.open--
	})
	return nil
}
