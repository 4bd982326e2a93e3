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
	"google.golang.org/protobuf/proto"

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
	// containPatience is how long after a failure the same is tried again.
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
	// failed is the last error, and retry when to try again.
	failed string
	retry  time.Time
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
}

// New returns Cgroups that do nothing yet. The error is that of metrics which are registered
// already.
func New(o Options) (*Cgroups, error) {
	c := &Cgroups{
		options: o, log: o.Log, due: make(chan struct{}, 1), engines: make(map[string]*contained), counted: make(map[string]time.Time),
		changed: make(map[string]bool),
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

// pass checks the engines that may have changed, or all of them, once.
func (c *Cgroups) pass(ctx context.Context) {
	c.mu.Lock()
	all, changed := c.all, c.changed
	c.all, c.changed = false, make(map[string]bool)
	c.mu.Unlock()
	if all && c.kernelLog != nil {
		if err := c.kernelLog.Read(); err != nil {
			c.log.DebugContext(ctx, "the kernel's log could not be read", "error", err)
		}
	}
	driver := c.open(ctx)
	if driver == nil || !c.find(ctx, driver) {
		return
	}
	killed := all && c.killedSince()
	desired := c.desiredOf(all, changed)
	for id, want := range desired {
		if ctx.Err() != nil {
			return
		}
		c.ensure(ctx, driver, id, want, killed)
	}
	if !all {
		return
	}
	for _, id := range c.others(desired) {
		c.remove(ctx, driver, id)
	}
}

// find enters the cgroups that an earlier incarnation has made. It reports whether they are known.
func (c *Cgroups) find(ctx context.Context, driver cgroup.Driver) bool {
	if c.found.Load() {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, containTimeout)
	defer cancel()
	list, err := driver.Find(ctx)
	if err != nil {
		c.failures.Inc()
		c.log.WarnContext(ctx, "cgroups of engines could not be looked for", "error", err)
		return false
	}
	unknown := make(map[string]time.Time)
	c.options.Locked(func(t *tracker.Tracker) {
		for _, f := range list {
			if !t.Knows(f.ID) {
				unknown[f.ID] = time.Now()
			}
		}
	})
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, f := range list {
		if c.engines[f.ID] == nil {
			c.engines[f.ID] = &contained{path: f.Path, inherited: true, unknownSince: unknown[f.ID]}
		}
	}
	c.found.Store(true)
	return true
}

// findOnce does so if the loop has not yet: an engine may have ended while no agent ran.
func (c *Cgroups) findOnce(ctx context.Context) {
	if c.found.Load() {
		return
	}
	if driver := c.open(ctx); driver != nil {
		c.find(ctx, driver)
	}
}

// ensure gives one engine its cgroup and its limits, if it does not have them. If the kernel may
// have killed processes of it, it counts them.
func (c *Cgroups) ensure(ctx context.Context, driver cgroup.Driver, id string, want desired, killed bool) {
	c.mu.Lock()
	e := c.engines[id]
	if e == nil && want.own != policy.CgroupNever {
		e = &contained{}
		c.engines[id] = e
	}
	if e == nil {
		c.mu.Unlock()
		return
	}
	e.unknownSince = time.Time{}
	before := *e
	c.mu.Unlock()
	if want.own == policy.CgroupIfFree && c.stays(ctx, driver, id, want, before) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, containTimeout)
	defer cancel()
	// Other limits than those that have failed are not made to wait.
	if before.limits != want.limits || !before.applied && !time.Now().Before(before.retry) {
		c.apply(ctx, driver, id, want, before)
	}
	c.mu.Lock()
	path := e.path
	c.mu.Unlock()
	if path != "" && path != want.process.GetCgroup() {
		moved := proto.CloneOf(want.process)
		moved.Cgroup = path
		c.options.Locked(func(t *tracker.Tracker) { t.SetProcess(id, moved) })
		c.options.ScheduleSave()
	}
	if !killed && !before.inherited && before.applied {
		return
	}
	if facts, err := driver.Facts(ctx, id); err == nil {
		c.count(id, facts, false)
	}
}

// stays reports whether an engine that no policy moves in any case stays where it is, because it
// would lose something by a move.
func (c *Cgroups) stays(ctx context.Context, driver cgroup.Driver, id string, want desired, before contained) bool {
	if before.wouldLose != "" || before.applied || before.inherited || before.failed != "" {
		return before.wouldLose != ""
	}
	lost, err := driver.Lost(want.process.GetPid())
	if err == nil && lost == "" {
		return false
	}
	if errors.Is(err, cgroup.ErrNone) {
		return true // it has ended, which the next measurement finds
	}
	if err != nil {
		lost = err.Error()
	}
	c.mu.Lock()
	if e := c.engines[id]; e != nil {
		e.wouldLose = lost
	}
	c.mu.Unlock()
	c.log.InfoContext(ctx, "an engine stays in the cgroup that it is in, as it would lose something by a move; its processes are measured",
		"allocation_id", id, "lost", lost)
	return true
}

// apply moves an engine to its cgroup, or sets other limits.
func (c *Cgroups) apply(ctx context.Context, driver cgroup.Driver, id string, want desired, before contained) {
	path := before.path
	var err error
	if before.applied {
		err = driver.Set(ctx, id, want.limits)
	}
	if !before.applied || errors.Is(err, cgroup.ErrNone) {
		path, err = driver.Adopt(ctx, id, want.limits, func() ([]cgroup.Member, error) { return c.members(driver, id, want) })
	}
	if errors.Is(err, cgroup.ErrNone) || ctx.Err() != nil && errors.Is(err, ctx.Err()) && path == "" {
		return // it has ended, which the next measurement finds; or the agent ends
	}
	c.mu.Lock()
	e := c.engines[id]
	e.path, e.limits, e.applied = path, want.limits, err == nil
	again := err != nil && e.failed == err.Error()
	e.failed, e.retry, e.wouldLose = "", time.Time{}, ""
	if err != nil {
		e.failed, e.retry = err.Error(), time.Now().Add(containPatience)
	}
	c.mu.Unlock()
	switch {
	case err != nil:
		c.failed(ctx, id, err, again)
	case !before.applied:
		c.log.InfoContext(ctx, "an engine is in a cgroup of its own", "allocation_id", id, "cgroup", path, "limits", want.limits)
	default:
		c.log.InfoContext(ctx, "an engine's limits are set anew", "allocation_id", id, "limits", want.limits)
	}
}

func (c *Cgroups) failed(ctx context.Context, id string, err error, again bool) {
	c.failures.Inc()
	level := slog.LevelWarn
	if again {
		level = slog.LevelDebug
	}
	c.log.Log(ctx, level, "an engine's cgroup is not as it should be; the engine goes on", "allocation_id", id, "error", err)
}

// others are the cgroups of allocations that have no engine any more, or not yet.
func (c *Cgroups) others(known map[string]desired) (ids []string) {
	tracked := make(map[string]bool)
	c.options.Locked(func(t *tracker.Tracker) {
		for _, e := range t.Engines() {
			tracked[e.ID] = true
		}
	})
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, e := range c.engines {
		if _, is := known[id]; !is && !tracked[id] && time.Since(e.unknownSince) > unknownPatience {
			ids = append(ids, id)
		}
	}
	return ids
}

// remove removes a cgroup without processes. One that has processes stays, and the next pass tries
// again: its engine is being launched, or was released and runs on.
func (c *Cgroups) remove(ctx context.Context, driver cgroup.Driver, id string) {
	if c.options.Launching(id) {
		return
	}
	c.mu.Lock()
	if e := c.engines[id]; e != nil && e.wouldLose != "" {
		delete(c.engines, id)
		c.mu.Unlock()
		return
	}
	c.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, containTimeout)
	defer cancel()
	err := driver.Remove(ctx, id)
	switch {
	case err == nil:
		c.mu.Lock()
		delete(c.engines, id)
		c.mu.Unlock()
	case errors.Is(err, cgroup.ErrBusy) || ctx.Err() != nil:
	default:
		c.mu.Lock()
		e := c.engines[id]
		again := e == nil || e.failed == err.Error()
		if e != nil {
			e.failed = err.Error()
		}
		c.mu.Unlock()
		c.failed(ctx, id, err, again)
	}
}
