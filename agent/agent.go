package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"golang.org/x/sync/errgroup"

	"github.com/bursar/bursar/agent/cgroup"
	"github.com/bursar/bursar/agent/contain"
	"github.com/bursar/bursar/agent/launch"
	"github.com/bursar/bursar/agent/process"
	"github.com/bursar/bursar/agent/socket"
	"github.com/bursar/bursar/agent/statefile"
	"github.com/bursar/bursar/agent/tracker"
	"github.com/bursar/bursar/internal/clusterid"
	"github.com/bursar/bursar/internal/discovery"
	"github.com/bursar/bursar/internal/localuser"
	"github.com/bursar/bursar/internal/osuser"
	"github.com/bursar/bursar/internal/tracing"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/proto/bursar/v1/bursarv1connect"
	"github.com/bursar/bursar/proto/convert"
	"github.com/bursar/bursar/providers/host"
)

// ErrReplaced ends Run: another agent has registered for this host after this one.
var ErrReplaced = errors.New("another agent has taken over this host: stop one of them, or, if they are of two machines, give each a hostId of its own")

// StrangerError says that a coordinator knows another agent by this one's hostId. It still hears
// from that agent, or has not given up that agent's engines yet.
type StrangerError struct {
	Err error // the coordinator's
}

func (e *StrangerError) Error() string {
	return fmt.Sprintf("this agent is not that of its host, and starts no engines: %v", e.Err)
}

// Unwrap returns the coordinator's refusal.
func (e *StrangerError) Unwrap() error { return e.Err }

// Meter measures the machine; *host.Meter is one.
type Meter interface {
	Capacity(ctx context.Context) (host.Capacity, error)
	Sample(ctx context.Context) host.Sample
	Available(ctx context.Context) (int64, error)
	Engines(ctx context.Context, engines []host.Engine) []host.Usage
	Marks(engine host.Engine) host.Marks
	BootID() (string, error)
	Identify(pid int32) (host.Identity, error)
	OwnCgroup(pid int32) (string, error)
	View(pid int32) (host.View, error)
	Place() host.Place
}

// Deps are what an agent is given.
type Deps struct {
	// Allocations and Hosts are the coordinator. They need not retry: the agent does, and it knows
	// better until when. Calls made for a caller carry that caller in identity.Header. Both are
	// required.
	Allocations bursarv1connect.AllocationServiceClient
	Hosts       bursarv1connect.HostServiceClient
	// Waiting are the same coordinators for requests that wait: better over HTTP/2, where a
	// thousand of them share a connection. Nil: Allocations.
	Waiting bursarv1connect.AllocationServiceClient
	// Finder says which coordinator leads, so that the agent reports to a new leader at once. Nil:
	// the agent does not know. The clients may use the same.
	Finder discovery.Finder
	// Elsewhere is called when a coordinator has answered from a leadership that is over: the
	// clients' next call should go to another one. Default: nothing happens.
	Elsewhere func()
	// Meter measures. Default: a host.Meter of this machine.
	Meter Meter
	// Logger is where the agent logs. Default: nowhere.
	Logger *slog.Logger
	// Socket is a socket that a service manager has opened. The agent serves on it, and does not
	// remove its path. Default: the agent makes its own. Connections that are not those of a Unix
	// socket are refused.
	Socket net.Listener
	// Metrics is where the agent's metrics go, and what /metrics shows. Default: a registry of its
	// own.
	Metrics *prometheus.Registry
	// Version is reported to the coordinator.
	Version string
	// Tracing is where traces of calls go; the clients have their own. The agent does not close
	// it. Nil: there are no traces.
	Tracing *tracing.Tracing
	// ForgetEpoch makes the agent take the epoch of the coordinator that answers first, also if it
	// has seen a higher one. It is for a host that has seen an epoch which no coordinator of its
	// cluster gave out.
	ForgetEpoch bool
	// Pin is the cluster that the agent belongs to, which its clients keep to. The agent adds the
	// one that it has stored, and pins at its first registration. Nil: it takes the coordinators
	// that it is given.
	Pin *clusterid.Pin
	// ForgetCluster makes the agent take the cluster of the coordinator that registers it first,
	// and that one's epoch, in place of its own.
	ForgetCluster bool
	// Proc is where the process table is, for what Stop ends. Default /proc.
	Proc string
	// OpenState opens the state directory, once a Run. Default: statefile.Open.
	OpenState func(path string) (State, error)
	// Cgroups makes cgroups of engines, and is closed with the agent. Default: as configured.
	Cgroups cgroup.Driver
	// KernelLog says which engines the kernel killed. Default: that of this machine, if it can be
	// read.
	KernelLog *cgroup.KernelLog
}

// State is where the state is kept; *statefile.Dir is one, and says what its methods do.
type State interface {
	Load() (statefile.State, error)
	Append(change tracker.Change) error
	Begin(state statefile.State) error
	Save(state statefile.State) error
	SetAside(now time.Time) (string, error)
	Token() ([]byte, error)
	SetToken(token []byte) error
	Intact() bool
	File() string
	Close() error
}

// Agent is the agent of one host. Make it with New, then Run it once.
type Agent struct {
	live     atomic.Pointer[settings]
	deps     Deps
	log      *slog.Logger
	socket   *socket.Server
	loops    watchedLoops
	ownMeter bool // Deps had none
	opener   *process.Opener
	metrics  *metrics
	users    osuser.Users
	trusted  trustedLoop
	direct   *launch.Direct
	waits    *waitStreams // of callers
	detached detachedCalls
	cgroups  *contain.Cgroups
	launches launches
	// What the machine has next to memory and cpu:
	workDirs   *workDirs
	countables *countables
	health     *healthLoop

	measureDue, syncDue *wakeup
	again               time.Duration // until the measuring loop measures again, as it wants; 0: a tick
	// ready is closed when the coordinator has answered a Sync, with the socket served.
	ready chan struct{}
	// serving is closed before that: when the socket is served, and the machine was measured.
	serving chan struct{}

	bootID      string
	incarnation uint64
	dir         State
	saving      sync.Mutex    // held while the state is written
	notStored   notStored     // why it cannot be
	unsaved     chan struct{} // one element: there is something to write
	running     sync.WaitGroup
	freshMemory freshMemory
	measuredAt  moment // when the machine was last measured, and a Sync last answered
	syncedAt    moment
	refusedAt   moment                        // when the last Sync began that tells of refused grants
	unsynced    atomic.Bool                   // the last Sync failed
	stranger    atomic.Pointer[StrangerError] // the host is another agent's; nil: it is not
	newLeader   atomic.Bool                   // another leader was named since the last Sync began
	asking      atomic.Int64                  // requests of callers that are not answered yet
	naming      naming                        // whether that leader has answered

	mu       sync.Mutex
	tracker  *tracker.Tracker // guarded by mu
	answered chan struct{}    // guarded by mu; closed and replaced when a Sync was answered
	measured chan struct{}    // guarded by mu; closed and replaced after each measurement
	engines  engines          // guarded by mu, except the part of the measuring loop
	// unconfirmed are the reservations of callers that will confirm a process; guarded by mu, by id
	unconfirmed        map[string]*unconfirmed
	unconfirmedKeepers []*unconfirmedKeeper // guarded by mu
	// keepersRead is when the list of the last incarnation is read, and keepersFile is held while
	// the list is written.
	keepersRead sync.Once
	keepersFile sync.Mutex

	draining bool // as last logged; of the sync loop alone
	// token is the identity token that the next registration shows; of the sync loop alone.
	token []byte
	// otherClusters are those that were logged; of the sync loop alone.
	otherClusters map[clusterid.Identity]bool

	// Of the measuring loop alone:
	degraded map[string]time.Time // when sources that were logged could last not be read
	sight    sight
	// protectsAll is which settings protect all that there is, as last logged.
	protectsAll []*ConfigError
	cleaned     time.Time // when records of engines were last cleaned up
	// held are the allocations whose keepers should have ended, since when.
	held map[string]time.Time
}

// New checks the configuration and returns an agent that does nothing yet. The errors are
// *ConfigError, and those of a machine that does not know its own name.
func New(config Config, deps Deps) (*Agent, error) {
	s, err := config.resolve()
	if err != nil {
		return nil, err
	}
	if deps.Allocations == nil || deps.Hosts == nil {
		return nil, errors.New("agent: want clients of a coordinator")
	}
	if deps.Waiting == nil {
		deps.Waiting = deps.Allocations
	}
	ownMeter := deps.Meter == nil
	if ownMeter {
		meter, err := host.NewMeter(s.meterOptions())
		if err != nil {
			return nil, fmt.Errorf("agent: %w", err)
		}
		deps.Meter = meter
	}
	if deps.Logger == nil {
		deps.Logger = slog.New(slog.DiscardHandler)
	}
	if deps.Metrics == nil {
		deps.Metrics = prometheus.NewRegistry()
		deps.Metrics.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	}
	if deps.Elsewhere == nil {
		deps.Elsewhere = func() {}
	}
	if deps.Proc == "" {
		deps.Proc = "/proc"
	}
	if deps.OpenState == nil {
		deps.OpenState = func(path string) (State, error) { return statefile.Open(path) }
	}
	now := time.Now()
	a := &Agent{
		deps: deps, ownMeter: ownMeter,
		log:        deps.Logger.With("host_id", s.HostID),
		opener:     process.NewOpener(deps.Meter, deps.Proc),
		measureDue: newWakeup(now), syncDue: newWakeup(now),
		ready: make(chan struct{}), serving: make(chan struct{}), answered: make(chan struct{}), measured: make(chan struct{}), unsaved: make(chan struct{}, 1),
		direct: &launch.Direct{},
		users: osuser.Users{Slots: make(chan struct{}, localuser.LookupsAtOnce), Silence: &osuser.Silence{Noted: func(user string, err error) {
			deps.Logger.Warn("the directory of users does not answer: engines of accounts in /etc/passwd get the groups of /etc/group alone", "user", user, "error", err)
		}}},

		unconfirmed: make(map[string]*unconfirmed), held: make(map[string]time.Time), degraded: make(map[string]time.Time),
	}
	a.trusted = trustedLoop{users: func() []string { return a.settings().TrustedUsers }, find: a.users.Named, changed: make(chan struct{}, 1), log: a.log}
	refused := newRefused()
	if err := deps.Metrics.Register(refused); err != nil {
		return nil, fmt.Errorf("agent: metrics: %w", err)
	}
	a.waits = newWaitStreams(deps.Waiting, deps.Allocations, a.running.Go, a.log)
	a.live.Store(&s)
	a.socket = a.newSocket(refused)
	if a.cgroups, err = a.newCgroups(); err != nil {
		return nil, fmt.Errorf("agent: %w", err)
	}
	a.workDirs, a.countables = newWorkDirs(a.log), newCountables(now, a.log)
	a.health = newHealthLoop(now, a.log, func() { a.measureIn(0) })
	a.loops = newWatchedLoops(now, a.measureDue, a.syncDue)
	if a.metrics, err = newMetrics(a, deps.Metrics); err != nil {
		return nil, fmt.Errorf("agent: %w", err)
	}
	return a, nil
}

// settings are those in force: a reload replaces them.
func (a *Agent) settings() *settings { return a.live.Load() }

// Ready is closed when the socket is served and the coordinator has answered the first Sync.
func (a *Agent) Ready() <-chan struct{} { return a.ready }

// HostID is the host's name, as configured or found.
func (a *Agent) HostID() string { return a.settings().HostID }

// Socket is the path of the Unix socket.
func (a *Agent) Socket() string { return a.settings().Socket }

// StateError says that the state directory cannot be opened. Nothing was begun.
type StateError struct{ Err error }

func (e *StateError) Error() string { return "agent: " + e.Err.Error() }

// Unwrap returns the cause.
func (e *StateError) Unwrap() error { return e.Err }

// Run does the agent's work until ctx ends, and returns nil then, with every goroutine ended and
// every engine left running. An error says why it could not start or go on: a state file of a
// newer version (*statefile.VersionError) or a directory in use (*statefile.InUseError), a socket
// that another process serves (*SocketInUseError), ErrReplaced. After a *StateError it may be
// called again.
func (a *Agent) Run(ctx context.Context) (err error) {
	if err := a.settings().checkLogs(); err != nil {
		return err
	}
	if err := a.open(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.close()) }()
	if err := a.socket.Listen(ctx); err != nil {
		return err //nolint:wrapcheck // it says what it is about
	}
	// Before anything is answered: a grant cannot be judged without a sample, and engines that
	// ended in the meantime are known.
	a.loops.measure.do(func() { a.measure(ctx) })
	close(a.serving)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return a.socket.Serve(ctx) })
	group.Go(func() error { return a.measureLoop(ctx) })
	group.Go(func() error { return a.cgroups.Loop(ctx) })
	group.Go(func() error {
		err := a.syncLoop(ctx)
		if !errors.Is(err, ErrReplaced) {
			a.leave() //nolint:contextcheck // ctx has ended
		}
		return err
	})
	group.Go(func() error { return a.saveLoop(ctx) })
	group.Go(func() error { return a.leaderWatch(ctx) })
	group.Go(func() error { return a.waits.run(ctx) })
	group.Go(func() error { return a.countables.loop(ctx) })
	group.Go(func() error { return a.health.loop(ctx) })
	group.Go(func() error { return a.trusted.run(ctx) })
	err = group.Wait()
	a.unwatch()
	a.running.Wait()
	return err
}

// open reads what an earlier incarnation left and begins a new one.
func (a *Agent) open(ctx context.Context) error {
	bootID, err := a.deps.Meter.BootID()
	if err != nil {
		return fmt.Errorf("agent: %w", err)
	}
	a.countables.use(time.Now(), a.settings().countables)
	a.countables.first(ctx)
	counts, _ := a.countables.counts(time.Now())
	capacity, err := a.deps.Meter.Capacity(ctx)
	if err != nil {
		return fmt.Errorf("agent: %w", err)
	}
	a.bootID = bootID
	place := a.deps.Meter.Place()
	if a.dir, err = a.deps.OpenState(a.settings().StateDir); err != nil {
		return &StateError{err}
	}
	saved, err := a.load()
	if err != nil {
		return errors.Join(fmt.Errorf("agent: %w", err), a.dir.Close())
	}
	if a.deps.ForgetEpoch {
		a.log.Warn("the epoch that was seen is forgotten: --forget-epoch is for one start", "epoch", saved.Epoch)
		saved.Epoch, saved.Leadership = 0, 0
	}
	a.pinCluster(&saved)
	a.readToken()
	a.sayHeld()
	now := time.Now()
	// If the state was lost, the clock makes it grow all the same.
	a.incarnation = max(saved.Incarnation+1, uint64(max(0, now.UnixMilli())))
	known := tracker.New(now, tracker.Host{
		ID: a.settings().HostID, Address: a.settings().Address, Labels: a.settings().Labels,
		Capacity:  a.settings().limits(capacity.MemoryBytes, capacity.CPUMillis, counts),
		Protected: convert.VectorToProto(a.settings().protected),
		BootID:    bootID, MachineID: place.MachineID, PIDNamespace: place.PIDNamespace, Version: a.deps.Version, Incarnation: a.incarnation,
	}, saved.Snapshot)
	a.mu.Lock()
	a.tracker = known // Status may be asked for already
	a.mu.Unlock()
	// If that fails, it has logged so. A full disk must not stop the agent, or its engines would
	// be taken for lost.
	_ = a.save()
	a.log.Info("agent starts", "incarnation", a.incarnation, "epoch", saved.Epoch, "engines", len(saved.Engines),
		"memory_from", capacity.MemorySource, "cpu_from", capacity.CPUSource)
	a.watch(ctx)
	return nil
}

// close stores all that the next incarnation needs.
func (a *Agent) close() error {
	a.unwatch()
	return errors.Join(a.saveLast(), a.dir.Close(), a.cgroups.Close())
}

// locked calls f with the tracker. f must not block.
func (a *Agent) locked(f func(t *tracker.Tracker)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	f(a.tracker)
}

// allocations returns the allocations of this host as the agent knows them, by id.
func (a *Agent) allocations() (list []*bursarv1.Allocation) {
	a.locked(func(t *tracker.Tracker) { list = t.All() })
	return list
}
