package contain

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/bursar/bursar/agent/cgroup"
	"github.com/bursar/bursar/agent/launch"
	"github.com/bursar/bursar/agent/policy"
	"github.com/bursar/bursar/agent/tracker"
	"github.com/bursar/bursar/providers/host"
)

const (
	// containTimeout bounds the work on the cgroup of one engine. factsTimeout bounds the reading
	// of the cgroup's facts after the engine has ended.
	containTimeout = 20 * time.Second
	factsTimeout   = 2 * time.Second
	// containPatience is the longest pause between a failure and the next attempt.
	containPatience = time.Minute
	// unknownPatience is how long the agent keeps a cgroup that existed when the agent started and
	// whose allocation it does not know. Another agent of this machine may be about to use it.
	unknownPatience = time.Hour
)

// The ways to give engines cgroups.
const (
	// Auto selects systemd if it runs and the agent is root. Otherwise it selects the kernel's
	// files if the agent may write them, and otherwise none.
	Auto    = "auto"
	Systemd = "systemd"
	Direct  = "direct"
	None    = "none"
)

// Settings configure the cgroups of engines.
type Settings struct {
	// Way is one of Auto, Systemd, Direct and None. Parent is the cgroup below which Direct makes
	// the cgroups of engines; empty means the parent of this process's own cgroup.
	Way, Parent string
	// Policies say which engines get a cgroup, and which limits.
	Policies policy.Set
}

// Options are the dependencies that the agent provides. Each function must be safe for concurrent
// use.
type Options struct {
	Log     *slog.Logger
	Metrics prometheus.Registerer
	// Proc is the path of the process table.
	Proc string
	// Driver makes the cgroups, and Close closes it; nil means a driver as configured. KernelLog
	// shows which processes the kernel killed; nil means the log of this machine, if it can be
	// read.
	Driver    cgroup.Driver
	KernelLog *cgroup.KernelLog
	// Direct starts the keepers that get no systemd unit.
	Direct *launch.Direct
	// Settings returns the settings in force.
	Settings func() Settings
	// Locked calls a function with the engines and their entitlements. The function must not block.
	Locked func(func(t *tracker.Tracker))
	// ScheduleSave makes the agent store its state soon, because the record of an engine has
	// changed.
	ScheduleSave func()
	// Launching reports whether the allocation's engine is being launched. Stopped reports whether
	// the agent has been asked to stop it.
	Launching, Stopped func(id string) bool
	// Identify returns the user that a process runs as. Any error means that the process has ended.
	Identify func(pid int32) (host.Identity, error)
}

// Cgroups gives engines cgroups of their own and updates the limits when an entitlement changes. A
// failure is logged and counted, and the engine runs on unchanged. The loop does all slow work, so
// that no other goroutine waits for systemd or a slow kernel. Other goroutines launch engines and
// ask how they ended.
type Cgroups struct {
	options  Options
	log      *slog.Logger
	kills    prometheus.Counter
	failures prometheus.Counter
	due      chan struct{} // one element: the loop may have work
	// killsSeen is the kernel's count of processes killed for lack of memory at the last pass over
	// all engines; nil means unknown.
	killsSeen *int64

	opening sync.Mutex  // held while a driver is opened
	opened  time.Time   // guarded by opening; the last attempt to open a driver
	found   atomic.Bool // the cgroups of earlier incarnations are known

	kernelLog *cgroup.KernelLog // nil: it cannot be read
	device    io.Closer         // the device of kernelLog, if New opened it

	mu      sync.Mutex
	driver  cgroup.Driver         // guarded by mu; nil: none
	engines map[string]*contained // guarded by mu; by allocation
	// changed are the allocations that the next pass checks; if all is set, it checks every one.
	// Most have no cgroup yet, and some never get one, so contained does not hold this mark.
	changed map[string]bool // guarded by mu
	all     bool            // guarded by mu
	// settling holds the waiters of Settle by engine, until the loop has checked the engine;
	// guarded by mu.
	settling map[string][]chan struct{}
	// counted is the time at which the kills of an allocation were counted. It includes engines
	// that had no cgroup of ours and engines whose cgroup is gone, so contained does not hold it
	// either.
	counted map[string]time.Time // guarded by mu
}

// contained is an engine that has a cgroup of ours, or will get one.
type contained struct {
	// path is the cgroup's path; "" if the engine has none yet, or none that can be measured.
	path   string
	limits cgroup.Limits
	// applied is set if the engine is inside and has these limits.
	applied bool
	// failed is the last error, failures is the number of consecutive failures, and retry is the
	// time of the next attempt.
	failed   string
	failures int
	retry    time.Time
	// checked is when the limit was last read from the kernel; zero means never.
	checked time.Time
	// kills is the number of the engine's processes that are known to have been killed. killed is
	// when the last kill was noticed.
	kills  int64
	killed time.Time
	// wouldLose names the limit or container that the engine would lose by a move that no policy
	// demands. If it is set, the engine stays in its current cgroup.
	wouldLose string
	// origin is the cgroup from which the engine is moved; "" if an earlier incarnation moved it.
	origin string
	// inherited is set if an earlier incarnation made the cgroup and this one has not read its
	// facts.
	inherited bool
	// unknownSince is when the agent found this cgroup without knowing its allocation; zero if the
	// agent knows the allocation.
	unknownSince time.Time
	// populated is set once the cgroup was seen with processes; see emptied.
	populated bool
}

// New returns Cgroups without starting the loop. It fails if the metrics are registered already.
func New(o Options) (*Cgroups, error) {
	c := &Cgroups{
		options: o, log: o.Log, due: make(chan struct{}, 1), engines: make(map[string]*contained), counted: make(map[string]time.Time),
		changed: make(map[string]bool), settling: make(map[string][]chan struct{}),
		kills: prometheus.NewCounter(prometheus.CounterOpts{
			Namespace: "bursar", Subsystem: "agent", Name: "out_of_memory_kills_total", Help: "Processes of engines that the kernel killed for lack of memory.",
		}),
		failures: prometheus.NewCounter(prometheus.CounterOpts{
			Namespace: "bursar", Subsystem: "agent", Name: "cgroup_failures_total", Help: "Times that an engine's cgroup or its limits could not be set up or removed.",
		}),
	}
	for _, collector := range []prometheus.Collector{c.kills, c.failures} {
		if err := o.Metrics.Register(collector); err != nil {
			return nil, fmt.Errorf("metrics: %w", err)
		}
	}
	if c.kernelLog = o.KernelLog; c.kernelLog == nil {
		var err error
		if c.kernelLog, c.device, err = cgroup.OpenKernelLog(o.Proc); err != nil {
			c.log.Debug("engines without a cgroup of their own that are killed for lack of memory are not recognised", "error", err)
		}
	}
	return c, nil
}

// ScheduleAll makes the loop check all engines.
func (c *Cgroups) ScheduleAll() {
	c.mu.Lock()
	c.all = true
	c.mu.Unlock()
	c.wake()
}

// Schedule makes the loop check one engine.
func (c *Cgroups) Schedule(id string) {
	c.mu.Lock()
	c.changed[id] = true
	c.mu.Unlock()
	c.wake()
}

func (c *Cgroups) wake() {
	select {
	case c.due <- struct{}{}:
	default:
	}
}

// Loop checks the engines that ScheduleAll and Schedule mark, until ctx ends. It returns nil.
func (c *Cgroups) Loop(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-c.due:
			c.pass(ctx)
		}
	}
}

// Close closes the driver and the kernel's log after the loop has ended. The engines' cgroups stay.
func (c *Cgroups) Close() error {
	var err error
	if driver := c.current(); driver != nil {
		err = driver.Close()
	}
	if c.device != nil {
		err = errors.Join(err, c.device.Close())
		c.device, c.kernelLog = nil, nil
	}
	return err
}

// current returns the driver; nil if none was opened.
func (c *Cgroups) current() cgroup.Driver {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.driver
}
