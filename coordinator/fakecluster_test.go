package coordinator

import (
	"context"
	"errors"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/bursar/bursar/coordinator/commit"
	"github.com/bursar/bursar/providers"
	"github.com/bursar/bursar/resource"
)

// fakeKind is a kind of clusters that are as the test says. Its clusters stand in for systems outside, so that several coordinators
// may share one.
type fakeKind struct {
	mu       sync.Mutex
	clusters map[string]*fakeCluster // guarded by mu, with all that is in them; by the setting "address"
	open     int                     // guarded by mu: providers that are open
	settings map[string]string       // guarded by mu: that a provider was opened with last
}

// fakeCluster is one of them. Change it in with.
type fakeCluster struct {
	kind *fakeKind

	queues       []providers.Queue
	applications map[string]providers.Application
	incarnation  string
	untrusted    string
	err          error // of reading queues
	partly       error // of asking for applications, after the first
	panics       string
	takes        time.Duration // until it answers
	hangs        bool          // it does not

	reads []time.Time // when it was read
	asked [][]string  // the applications that it was asked for
	busy  bool
	twice bool // it was asked for two things at once, by one provider or by two
	wrong bool // it was asked for applications before its queues
}

func newFakeKind() *fakeKind { return &fakeKind{clusters: make(map[string]*fakeCluster)} }

// cluster is the one at an address: made where there is none, with queues root, of 8 GiB, and root.a and root.b, of 4 GiB each, and 100 cores.
func (k *fakeKind) cluster(address string) *fakeCluster {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.clusters[address] == nil {
		k.clusters[address] = &fakeCluster{
			kind: k, applications: make(map[string]providers.Application),
			queues: []providers.Queue{fakeQueue("root", 8*gib), fakeQueue("root.a", 4*gib), fakeQueue("root.b", 4*gib)},
		}
	}
	return k.clusters[address]
}

func fakeQueue(path string, memory int64) providers.Queue {
	q := providers.Queue{Path: path, State: "RUNNING", Limit: resource.Vector{}.WithMemory(memory).WithCPU(100_000)}
	for i := len(path) - 1; i > 0; i-- {
		if path[i] == '.' {
			q.Parent = path[:i]
			break
		}
	}
	return q
}

// with changes or looks at the cluster.
func (c *fakeCluster) with(f func(c *fakeCluster)) {
	c.kind.mu.Lock()
	defer c.kind.mu.Unlock()
	f(c)
}

// uses says what the applications of root.a hold.
func (c *fakeCluster) uses(memory int64) {
	c.with(func(c *fakeCluster) {
		for i := range c.queues {
			if q := &c.queues[i]; q.Path == "root" || q.Path == "root.a" {
				q.Used = resource.Vector{}.WithMemory(memory)
			}
		}
	})
}

// times is when it was read, and forgets it.
func (c *fakeCluster) times() (reads []time.Time) {
	c.with(func(c *fakeCluster) { reads, c.reads = c.reads, nil })
	return reads
}

func (*fakeKind) Name() string { return "fake" }

func (*fakeKind) Files() []string { return []string{"secretFile"} }

func (*fakeKind) Check(settings map[string]string) error {
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

func (k *fakeKind) Open(_ string, settings map[string]string) (providers.Provider, error) {
	if name := settings["secretFile"]; name != "" {
		if _, err := os.ReadFile(name); err != nil {
			return nil, &providers.SettingError{Setting: "secretFile", Value: name, Want: "a file that can be read"}
		}
	}
	c := k.cluster(settings["address"])
	k.mu.Lock()
	defer k.mu.Unlock()
	k.open++
	k.settings = settings
	return &fakeProvider{cluster: c}, nil
}

// providersOpen is how many providers are open.
func (k *fakeKind) providersOpen() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.open
}

// fakeProvider reads a fakeCluster.
type fakeProvider struct {
	cluster *fakeCluster
	read    bool
	closed  bool
}

func (p *fakeProvider) Snapshot(ctx context.Context) (s providers.Snapshot, err error) {
	var takes time.Duration
	var hangs bool
	var panics string
	p.cluster.with(func(c *fakeCluster) {
		c.reads = append(c.reads, time.Now())
		c.twice = c.twice || c.busy
		c.busy, p.read = true, true
		takes, hangs, panics = c.takes, c.hangs, c.panics
	})
	defer p.cluster.with(func(c *fakeCluster) { c.busy = false })
	if panics != "" {
		panic(panics)
	}
	if hangs {
		<-ctx.Done()
		return s, &providers.UnavailableError{Err: ctx.Err()}
	}
	if takes > 0 && !commit.Pause(takes, ctx.Done(), nil) {
		return s, &providers.UnavailableError{Err: ctx.Err()}
	}
	p.cluster.with(func(c *fakeCluster) {
		s = providers.Snapshot{Server: "rm1", Incarnation: c.incarnation, Untrusted: c.untrusted, Queues: slices.Clone(c.queues)}
		err = c.err
	})
	return s, err
}

func (p *fakeProvider) Applications(_ context.Context, ids []string) (list []providers.Application, err error) {
	p.cluster.with(func(c *fakeCluster) {
		c.twice, c.wrong = c.twice || c.busy, c.wrong || !p.read
		c.asked = append(c.asked, ids)
		for i, id := range ids {
			if i > 0 && c.partly != nil {
				err = c.partly
				return
			}
			a := c.applications[id]
			a.ID = id
			list = append(list, a)
		}
	})
	return list, err
}

func (p *fakeProvider) Servers(context.Context) (list []providers.Server) {
	p.cluster.with(func(c *fakeCluster) {
		list = []providers.Server{{Address: "rm1", Role: "active", Version: "1", Err: c.err}, {Address: "rm2", Err: errors.New("refused")}}
	})
	return list
}

func (p *fakeProvider) Close() error {
	p.cluster.with(func(c *fakeCluster) {
		if p.closed {
			panic("closed twice")
		}
		p.closed = true
		c.kind.open--
	})
	return nil
}
