package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"golang.org/x/sync/errgroup"

	"github.com/bursar/bursar/agent/callers"
	"github.com/bursar/bursar/agent/engine"
	"github.com/bursar/bursar/agent/hoststate"
	"github.com/bursar/bursar/agent/launch"
	"github.com/bursar/bursar/agent/logs"
	"github.com/bursar/bursar/agent/loops"
	"github.com/bursar/bursar/agent/machine"
	"github.com/bursar/bursar/agent/orders"
	"github.com/bursar/bursar/agent/output"
	"github.com/bursar/bursar/agent/process"
	"github.com/bursar/bursar/agent/ready"
	"github.com/bursar/bursar/agent/report"
	"github.com/bursar/bursar/agent/sending"
	"github.com/bursar/bursar/agent/statefile"
	"github.com/bursar/bursar/agent/tracker"
	"github.com/bursar/bursar/internal/localuser"
	"github.com/bursar/bursar/internal/osuser"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/proto/bursar/v1/bursarv1connect"
	"github.com/bursar/bursar/proto/convert"
	"github.com/bursar/bursar/providers/host"
)

// New checks the configuration and returns an agent that does nothing yet. The errors are
// *ConfigError, and those of a machine that does not know its own name.
func New(config Config, deps Deps) (*Agent, error) {
	s, err := config.resolve()
	if err != nil {
		return nil, err
	}
	ownMeter := deps.Meter == nil
	if err := deps.complete(&s); err != nil {
		return nil, err
	}
	now := time.Now()
	a := &Agent{
		deps: deps, ownMeter: ownMeter,
		log:        deps.Logger.With("host_id", s.HostID),
		measureDue: loops.NewWakeup(now), syncDue: loops.NewWakeup(now),
		serving: make(chan struct{}),
		direct:  &launch.Direct{},
		users: osuser.Users{Slots: make(chan struct{}, localuser.LookupsAtOnce), Silence: &osuser.Silence{Noted: func(user string, err error) {
			deps.Logger.Warn("the directory of users does not answer: engines of accounts in /etc/passwd get the groups of /etc/group alone", "user", user, "error", err)
		}}},
		degraded: make(map[string]time.Time),
	}
	a.trusted = callers.NewTrustedLoop(func() []string { return a.settings().TrustedUsers }, a.users.Named, a.log)
	refused := newRefused()
	if err := deps.Metrics.Register(refused); err != nil {
		return nil, fmt.Errorf("agent: metrics: %w", err)
	}
	a.live.Store(&s)
	a.state = hoststate.New(a.log, a.HostID, func(took time.Duration, err error) { a.metrics.saved(took, err) })
	a.socket = a.newSocket(refused)
	if a.cgroups, err = a.newCgroups(); err != nil {
		return nil, fmt.Errorf("agent: %w", err)
	}
	a.workDirs, a.countables = machine.NewWorkDirs(a.log), machine.NewCountables(now, a.log)
	a.health = machine.NewHealthLoop(now, a.log, func() { a.measureDue.In(0) })
	a.loops = newWatchedLoops(now, a.measureDue, a.syncDue)
	if a.metrics, err = newMetrics(a, deps.Metrics); err != nil {
		return nil, fmt.Errorf("agent: %w", err)
	}
	a.connect()
	return a, nil
}

// complete fills in the defaults.
func (d *Deps) complete(s *settings) error {
	if d.Allocations == nil || d.Hosts == nil {
		return errors.New("agent: want clients of a coordinator")
	}
	if d.Waiting == nil {
		d.Waiting = d.Allocations
	}
	if d.Meter == nil {
		meter, err := host.NewMeter(s.meterOptions())
		if err != nil {
			return fmt.Errorf("agent: %w", err)
		}
		d.Meter = meter
	}
	if d.Logger == nil {
		d.Logger = slog.New(slog.DiscardHandler)
	}
	if d.Metrics == nil {
		d.Metrics = prometheus.NewRegistry()
		d.Metrics.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	}
	if d.Elsewhere == nil {
		d.Elsewhere = func() {}
	}
	if d.DialOutput == nil {
		d.DialOutput = func(string) (bursarv1connect.HostServiceClient, func(), error) { return d.Hosts, func() {}, nil }
	}
	if d.Proc == "" {
		d.Proc = "/proc"
	}
	if d.OpenState == nil {
		d.OpenState = func(path string) (State, error) { return statefile.Open(path) }
	}
	return nil
}

// connect makes the parts that look after engines, report, and serve callers.
func (a *Agent) connect() {
	s, deps := a.settings(), &a.deps
	records := launch.Records(filepath.Join(s.StateDir, recordsName))
	a.logs = logs.New(logs.Options{
		Spawner: a.cgroups.Helpers(), Keeper: s.Engines.Keeper, LogDir: s.Engines.LogDir, Users: a.users, Records: records, Engine: a.engineOf, Log: a.log,
	})
	opener := process.NewOpener(deps.Meter, deps.Proc)
	a.engines = engine.New(engine.Options{
		State: a.state, Meter: deps.Meter, Opener: opener, Cgroups: a.cgroups,
		Records: records, Keeper: s.Engines.Keeper, LogDir: s.Engines.LogDir,
		Sight: ready.Own(deps.Proc, s.Engines.Keeper, a.blind), Proc: deps.Proc, MeasureDue: a.measureDue, SyncDue: a.syncDue,
		Synced: func() bool { return a.reports.IsSynced() },
		AskStop: func(ctx context.Context, request *bursarv1.StopRequest) (heard bool, err error) {
			return callers.AskStop(ctx, deps.Allocations, a.HostID(), request) //nolint:wrapcheck // it says what it is about
		},
		StopAsked: a.metrics.stopAsked, Output: a.logs, Background: a.running.Go, Log: a.log,
	})
	a.reports = report.New(report.Options{
		State: a.state, Hosts: deps.Hosts, Orders: a.engines, Finder: deps.Finder, Elsewhere: deps.Elsewhere,
		Pin: deps.Pin, ForgetCluster: deps.ForgetCluster, MeasureDue: a.measureDue, SyncDue: a.syncDue, Pass: a.loops.sync.Do,
		Uptime: func() time.Duration { return deps.Meter.Place().Uptime }, FreshMemory: a.readFreshMemory,
		Synced: a.metrics.synced, Vetoed: a.countVeto, Log: a.log,
	})
	a.callers = callers.New(callers.Options{
		State: a.state, Engines: a.engines, Reports: a.reports, Cgroups: a.cgroups, Meter: deps.Meter, Opener: opener,
		Allocations: deps.Allocations, Waiting: deps.Waiting, Upstream: deps.Engines, Users: a.users, Logs: a.logs, Admit: a.socket.Admitted.Wait, Settings: a.forCallers,
		MeasureDue: a.measureDue, SyncDue: a.syncDue, FreshMemory: a.readFreshMemory, Vetoed: a.countVeto,
		OutputRead: a.metrics.outputRead, Background: a.running.Go, Log: a.log,
	})
	a.orders = orders.New(orders.Options{
		HostID: a.HostID, State: a.state, Hosts: deps.Hosts, Engines: a.engines, Users: a.users, Policy: a.forOrders, SyncDue: a.syncDue,
		Elsewhere: deps.Elsewhere,
		Sender: sending.New(sending.Options{
			HostID: a.HostID, Incarnation: a.state.Incarnation, Output: a.logs, Coordinators: a.coordinators, Dial: deps.DialOutput, Log: a.log,
		}),
		Log: a.log,
	})
}

// engineOf returns the agent's knowledge of an allocation's engine.
func (a *Agent) engineOf(id string) logs.Engine {
	var of logs.Engine
	a.state.Locked(func(t *tracker.Tracker) {
		held, _ := t.Get(id)
		of.Launched = held.GetProcess().GetLaunched()
		_, of.Runs = t.Engine(id)
	})
	return of
}

// coordinators are the URLs of the agent's own coordinators.
func (a *Agent) coordinators() []string {
	if a.deps.Finder == nil {
		return nil
	}
	known, _ := a.deps.Finder.Coordinators()
	urls := make([]string, len(known))
	for i := range known {
		urls[i] = known[i].URL
	}
	return urls
}

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
	a.loops.measure.Do(func() { a.measure(ctx) })
	close(a.serving)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return a.socket.Serve(ctx) })
	group.Go(func() error { return a.measureLoop(ctx) })
	group.Go(func() error { return a.cgroups.Loop(ctx) })
	group.Go(func() error {
		err := a.reports.Loop(ctx)
		if !errors.Is(err, ErrReplaced) {
			a.reports.Leave() //nolint:contextcheck // ctx has ended
		}
		return err
	})
	group.Go(func() error { return a.state.SaveLoop(ctx, a.loops.save.Do) })
	group.Go(func() error { return a.reports.WatchLeader(ctx) })
	group.Go(func() error { return a.callers.Run(ctx) })
	group.Go(func() error { return a.countables.Loop(ctx) })
	group.Go(func() error { return a.health.Loop(ctx) })
	group.Go(func() error { return a.trusted.Run(ctx) })
	group.Go(func() error { return a.orders.Run(ctx) })
	group.Go(func() error { return a.logs.Run(ctx) })
	err = group.Wait()
	a.engines.Unwatch()
	a.running.Wait()
	return err
}

// open reads the state of an earlier incarnation and begins a new one.
func (a *Agent) open(ctx context.Context) error {
	bootID, err := a.deps.Meter.BootID()
	if err != nil {
		return fmt.Errorf("agent: %w", err)
	}
	a.countables.Use(time.Now(), a.settings().countables)
	a.countables.First(ctx)
	counts, _ := a.countables.Counts(time.Now())
	capacity, err := a.deps.Meter.Capacity(ctx)
	if err != nil {
		return fmt.Errorf("agent: %w", err)
	}
	place := a.deps.Meter.Place()
	dir, err := a.deps.OpenState(a.settings().StateDir)
	if err != nil {
		return &StateError{err}
	}
	saved, err := a.load(dir, bootID)
	if err != nil {
		return errors.Join(fmt.Errorf("agent: %w", err), dir.Close())
	}
	if a.deps.ForgetEpoch {
		a.log.Warn("the epoch that was seen is forgotten: --forget-epoch is for one start", "epoch", saved.Epoch)
		saved.Epoch, saved.Leadership = 0, 0
	}
	now := time.Now()
	// If the state was lost, the clock makes it grow all the same.
	incarnation := max(saved.Incarnation+1, uint64(max(0, now.UnixMilli())))
	a.state.Open(dir, bootID, incarnation)
	if err := a.logs.Open(filepath.Join(a.settings().StateDir, output.FoldersFile)); err != nil {
		return &StateError{errors.Join(err, a.state.Close())}
	}
	a.reports.PinCluster(&saved)
	a.reports.ReadToken()
	a.sayHeld()
	known := tracker.New(now, tracker.Host{
		ID: a.settings().HostID, Address: a.settings().Address, Labels: a.settings().Labels,
		Capacity:  a.settings().limits(capacity.MemoryBytes, capacity.CPUMillis, counts),
		Protected: convert.VectorToProto(a.settings().protected),
		BootID:    bootID, MachineID: place.MachineID, PIDNamespace: place.PIDNamespace, Version: a.deps.Version, Incarnation: incarnation,
	}, saved.Snapshot)
	a.state.Begin(known) // Status may be asked for already
	// If that fails, it has logged so. A full disk must not stop the agent, or its engines would
	// be taken for lost.
	_ = a.state.Save()
	a.log.Info("agent starts", "incarnation", incarnation, "epoch", saved.Epoch, "engines", len(saved.Engines),
		"memory_from", capacity.MemorySource, "cpu_from", capacity.CPUSource)
	a.engines.Watch(ctx)
	return nil
}

// close stores all that the next incarnation needs.
func (a *Agent) close() error {
	a.engines.Unwatch()
	return errors.Join(a.state.SaveLast(), a.logs.Close(), a.state.Close(), a.cgroups.Close())
}
