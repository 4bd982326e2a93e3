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
	// containTimeout bounds what is done to the cgroup of one engine, and factsTimeout the reading
	// of its facts when it has ended.
	containTimeout = 20 * time.Second
	factsTimeout   = 2 * time.Second
	// containPatience is the longest time after a failure until the same is tried again.
	containPatience = time.Minute
	// unknownPatience is how long a cgroup stays that was there when the agent started, if the
	// agent does not know its allocation: another agent of this machine may be about to use it.
	unknownPatience = time.Hour
)

// The ways to give engines cgroups.
const (
	// Auto is systemd if it is there and this is root, else the kernel's files if they may be
	// written, else none.
	Auto    = "auto"
	Systemd = "systemd"
	Direct  = "direct"
	None    = "none"
)

// Settings are those in force.
type Settings struct {
	// Way is one of Auto, Systemd, Direct and None. Parent is the cgroup below which those of
	// engines are made with the kernel's files; empty: that above this process's own.
	Way, Parent string
	// Policies say which engines get a cgroup, and which limits.
	Policies policy.Set
}

// Options are what is asked of an agent. Each function may be called by several goroutines at a
// time.
type Options struct {
	Log     *slog.Logger
	Metrics prometheus.Registerer
	// Proc is where the process table is.
	Proc string
	// Driver makes the cgroups, and is closed with them; nil: one as configured. KernelLog says
	// which engines the kernel killed; nil: that of this machine, if it can be read.
	Driver    cgroup.Driver
	KernelLog *cgroup.KernelLog
	// Direct starts keepers that get no unit of their own.
	Direct *launch.Direct
	// Settings are those in force.
	Settings func() Settings
	// Locked calls a function with the engines and what they are entitled to. That must not block.
	Locked func(func(t *tracker.Tracker))
	// ScheduleSave has the state stored soon: what is known of an engine has changed.
	ScheduleSave func()
	// Launching reports whether the allocation's engine is being launched, Stopped whether the
	// agent has been asked to stop it.
	Launching, Stopped func(id string) bool
	// Identify says which user a process runs as. Any error: it has ended.
	Identify func(pid int32) (host.Identity, error)
}

// Cgroups gives engines cgroups of their own and keeps their limits in step with what they are
// entitled to. If something fails, that is logged and counted, and the engine goes on as it is.
// The loop does all that may take long, so that nothing else waits for systemd or a slow kernel.
// Other goroutines launch engines and ask how they ended.
type Cgroups struct {
	options  Options
	log      *slog.Logger
	kills    prometheus.Counter
	failures prometheus.Counter
	due      chan struct{} // one element: there may be something to do
	// killsSeen is the kernel's count of processes ended for lack of memory at the last pass over
	// all; nil: not known.
	killsSeen *int64

	opening sync.Mutex  // held while a driver is opened
	opened  time.Time   // guarded by opening; when that was last tried
	found   atomic.Bool // what an earlier incarnation left is known

	kernelLog *cgroup.KernelLog // nil: it cannot be read
	device    io.Closer         // of kernelLog, if it was opened here

	mu      sync.Mutex
	driver  cgroup.Driver         // guarded by mu; nil: none
	engines map[string]*contained // guarded by mu; by allocation
	// changed are the allocations to look at, and all is whether that is all of them. Most have no
	// cgroup yet, and some never get one: so this is no part of a contained engine.
	changed map[string]bool // guarded by mu
	all     bool            // guarded by mu
	// settling are the calls that wait until the loop has looked at an engine; guarded by mu.
	settling map[string][]chan struct{}
	// counted are allocations whose kills were counted, by when. It has engines that had no cgroup
	// of ours, and engines whose cgroup is gone: so this is no part of a contained engine either.
	counted map[string]time.Time // guarded by mu
}

// contained is an engine that has a cgroup of ours, or shall have one.
type contained struct {
	// path is its cgroup's; "": there is none yet, or none that can be measured.
	path   string
	limits cgroup.Limits
	// applied: the engine is inside and has these limits.
	applied bool
	// failed is the last error, failures how many there were in a row, and retry when to try again.
	failed   string
	failures int
	retry    time.Time
	// checked is when its limit was last read from the kernel; zero: never.
	checked time.Time
	// kills is how many of its processes are known to have been killed, killed is when the last
	// was noticed.
	kills  int64
	killed time.Time
	// wouldLose is what the engine would lose by a move that no policy demands: so it stays where
	// it is.
	wouldLose string
	// origin is the cgroup that it is moved from; "": not known, as it was moved before this
	// incarnation.
	origin string
	// inherited: an earlier incarnation has made it, and its facts were not read since.
	inherited bool
	// unknownSince is when a cgroup was found whose allocation this agent did not know; zero: it
	// knows it.
	unknownSince time.Time
	// populated: such a cgroup was seen to have processes.
	populated bool
}

// New returns Cgroups that do nothing yet. The error is that of metrics which are registered
// already.
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

// ScheduleAll has the loop check all engines.
func (c *Cgroups) ScheduleAll() {
	c.mu.Lock()
	c.all = true
	c.mu.Unlock()
	c.wake()
}

// Schedule has the loop check one engine.
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

// Loop does what ScheduleAll and Schedule ask for until ctx ends. It returns nil.
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

// Close is called when the loop has ended. Cgroups stay.
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

// current is the driver; nil: none was opened.
func (c *Cgroups) current() cgroup.Driver {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.driver
}
