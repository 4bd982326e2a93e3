package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/proto"

	"github.com/bursar/bursar/agent/cgroup"
	"github.com/bursar/bursar/agent/policy"
	"github.com/bursar/bursar/agent/process"
	"github.com/bursar/bursar/agent/tracker"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

const (
	// containTimeout bounds what is done to the cgroup of one engine, and one look at its facts when it has ended.
	containTimeout = 20 * time.Second
	factsTimeout   = 2 * time.Second
	// containPatience is the time after which something is tried again that has failed.
	containPatience = time.Minute
)

// cgroups gives engines cgroups of their own and keeps their limits in step with what they are entitled to. Whatever fails is logged and
// counted, and the engine goes on as it is. Its loop does all that may take long, so that nothing else waits for systemd or a slow
// kernel; other goroutines launch engines and ask how they ended.
type cgroups struct {
	agent    *Agent
	log      *slog.Logger
	kills    prometheus.Counter
	failures prometheus.Counter
	due      chan struct{} // one element: there may be something to do

	opening sync.Mutex  // held while a driver is opened
	opened  time.Time   // guarded by opening; when that was last tried
	found   atomic.Bool // what an earlier incarnation left is known

	kernelLog *cgroup.KernelLog // nil: it cannot be read
	device    io.Closer         // of kernelLog, where it is ours

	mu      sync.Mutex
	driver  cgroup.Driver         // guarded by mu; nil: none
	engines map[string]*contained // guarded by mu; by allocation
	counted map[string]time.Time  // guarded by mu; allocations whose kills were counted, by when
}

// contained is an engine that has a cgroup of ours, or shall have one.
type contained struct {
	// path is its cgroup's; "" where there is none yet, or none that can be measured.
	path   string
	limits cgroup.Limits
	// settled: the engine is inside and has these limits.
	settled bool
	// failed is what went wrong last, and retry when to try again.
	failed string
	retry  time.Time
	// kills are those of its processes that are known of, killed is when the last was noticed.
	kills  int64
	killed time.Time
	// inherited: an earlier incarnation has made it, and nobody has looked at it since.
	inherited bool
}

func newCgroups(a *Agent, registry *prometheus.Registry) (*cgroups, error) {
	c := &cgroups{
		agent: a, log: a.log, due: make(chan struct{}, 1), engines: make(map[string]*contained), counted: make(map[string]time.Time),
		kills: prometheus.NewCounter(prometheus.CounterOpts{
			Namespace: "bursar", Subsystem: "agent", Name: "out_of_memory_kills_total", Help: "Processes of engines that the kernel killed for lack of memory.",
		}),
		failures: prometheus.NewCounter(prometheus.CounterOpts{
			Namespace: "bursar", Subsystem: "agent", Name: "cgroup_failures_total", Help: "Times that an engine's cgroup or its limits could not be set up or removed.",
		}),
	}
	for _, collector := range []prometheus.Collector{c.kills, c.failures} {
		if err := registry.Register(collector); err != nil {
			return nil, fmt.Errorf("metrics: %w", err)
		}
	}
	if c.kernelLog = a.deps.KernelLog; c.kernelLog == nil {
		var err error
		if c.kernelLog, c.device, err = cgroup.OpenKernelLog(a.deps.Proc); err != nil {
			c.log.Debug("engines without a cgroup of their own that are killed for lack of memory are not recognised", "error", err)
		}
	}
	return c, nil
}

// soon has the loop look at all engines.
func (c *cgroups) soon() {
	select {
	case c.due <- struct{}{}:
	default:
	}
}

func (c *cgroups) loop(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-c.due:
			c.pass(ctx)
		}
	}
}

// close is called when the loop has ended. Cgroups stay.
func (c *cgroups) close() error {
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

// current is what makes cgroups here, as far as it was opened.
func (c *cgroups) current() cgroup.Driver {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.driver
}

// pass looks at all engines once.
func (c *cgroups) pass(ctx context.Context) {
	if c.kernelLog != nil {
		if err := c.kernelLog.Look(); err != nil {
			c.log.DebugContext(ctx, "the kernel's log could not be read", "error", err)
		}
	}
	driver := c.open(ctx)
	if driver == nil || !c.find(ctx, driver) {
		return
	}
	wanted := c.wanted()
	for id, w := range wanted {
		if ctx.Err() != nil {
			return
		}
		c.keep(ctx, driver, id, w)
	}
	for _, id := range c.others(wanted) {
		c.remove(ctx, driver, id)
	}
}

// find takes up the cgroups that an earlier incarnation has made.
func (c *cgroups) find(ctx context.Context, driver cgroup.Driver) bool {
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
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, f := range list {
		if c.engines[f.ID] == nil {
			c.engines[f.ID] = &contained{path: f.Path, inherited: true}
		}
	}
	c.found.Store(true)
	return true
}

// takeUp does so before the loop has: an engine may have ended while no agent was there.
func (c *cgroups) takeUp(ctx context.Context) {
	if c.found.Load() {
		return
	}
	if driver := c.open(ctx); driver != nil {
		c.find(ctx, driver)
	}
}

// wish is what an engine's cgroup shall be.
type wish struct {
	process *bursarv1.Process
	limits  cgroup.Limits
	// own: it shall have one of ours, also where it has none yet.
	own bool
}

// wanted are the engines that were shown to this agent: on a coordinator's word alone no process is moved.
func (c *cgroups) wanted() map[string]wish {
	wanted := make(map[string]wish)
	policies := c.agent.settings().policies
	c.agent.locked(func(t *tracker.Tracker) {
		for _, e := range t.Engines() {
			grant, _ := t.Get(e.ID)
			if !e.Identified || e.Process.GetStartTime() == 0 {
				continue
			}
			p := policies.For(grant.GetLabels())
			// One that its starter has given it is as good, but for limits: these are set on our own alone.
			given := e.Process.GetCgroup() != "" && p.Action != policy.Limit
			wanted[e.ID] = wish{process: e.Process, limits: limitsOf(p, grant.GetEntitled()), own: p.Cgroup && !given}
		}
	})
	return wanted
}

// limitsOf are the limits of an engine: those of its entitlement where its policy is to limit it, else only its part of busy processors.
func limitsOf(p policy.Policy, entitled *bursarv1.Resource) cgroup.Limits {
	const (
		millisPerWeight = 10 // a core is what a weight of 100 stands for, which everybody has who says nothing
		leastWeight     = 1
		mostWeight      = 10_000
	)
	var limits cgroup.Limits
	if millis := entitled.GetCpuMillis(); millis > 0 {
		limits.CPUWeight = min(max(millis/millisPerWeight, leastWeight), mostWeight)
	}
	if p.Action != policy.Limit {
		return limits
	}
	limits.CPUMillis = max(0, entitled.GetCpuMillis())
	const beyond = 1 << 60 // no kernel takes more
	if bound := p.Bound(entitled.GetMemoryBytes()); bound < beyond {
		limits.MemoryMax = bound
	}
	return limits
}

// keep gives one engine its cgroup and its limits, where it has not got them.
func (c *cgroups) keep(ctx context.Context, driver cgroup.Driver, id string, w wish) {
	c.mu.Lock()
	e := c.engines[id]
	if e == nil && w.own {
		e = &contained{}
		c.engines[id] = e
	}
	if e == nil {
		c.mu.Unlock()
		return
	}
	before := *e
	c.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, containTimeout)
	defer cancel()
	// Other limits than those that have failed are not made to wait.
	if before.limits != w.limits || !before.settled && !time.Now().Before(before.retry) {
		c.settle(ctx, driver, id, w, before)
	}
	c.mu.Lock()
	path := e.path
	c.mu.Unlock()
	if path != "" && path != w.process.GetCgroup() {
		moved := proto.CloneOf(w.process)
		moved.Cgroup = path
		c.agent.locked(func(t *tracker.Tracker) { t.SetProcess(id, moved) })
		c.agent.saveSoon()
	}
	if facts, err := driver.Facts(ctx, id); err == nil {
		c.count(id, facts, false)
	}
}

// settle moves an engine to its cgroup, or sets other limits.
func (c *cgroups) settle(ctx context.Context, driver cgroup.Driver, id string, w wish, before contained) {
	path := before.path
	var err error
	if before.settled {
		err = driver.Set(ctx, id, w.limits)
	}
	if !before.settled || errors.Is(err, cgroup.ErrNone) {
		path, err = driver.Adopt(ctx, id, w.limits, func() ([]cgroup.Member, error) { return c.members(w.process) })
	}
	if errors.Is(err, cgroup.ErrNone) || ctx.Err() != nil && errors.Is(err, ctx.Err()) && path == "" {
		return // it has ended, which the next measurement finds; or the agent ends
	}
	c.mu.Lock()
	e := c.engines[id]
	e.path, e.limits, e.settled = path, w.limits, err == nil
	again := err != nil && e.failed == err.Error()
	e.failed, e.retry = "", time.Time{}
	if err != nil {
		e.failed, e.retry = err.Error(), time.Now().Add(containPatience)
	}
	c.mu.Unlock()
	switch {
	case err != nil:
		c.failed(ctx, id, err, again)
	case !before.settled:
		c.log.InfoContext(ctx, "an engine is in a cgroup of its own", "allocation_id", id, "cgroup", path, "limits", w.limits)
	default:
		c.log.InfoContext(ctx, "an engine's limits are set anew", "allocation_id", id, "limits", w.limits)
	}
}

func (c *cgroups) failed(ctx context.Context, id string, err error, again bool) {
	c.failures.Inc()
	level := slog.LevelWarn
	if again {
		level = slog.LevelDebug
	}
	c.log.Log(ctx, level, "an engine's cgroup is not as it should be; the engine goes on", "allocation_id", id, "error", err)
}

// members lists the processes of an engine, its root first.
func (c *cgroups) members(p *bursarv1.Process) ([]cgroup.Member, error) {
	refs, err := process.Members(c.agent.deps.Proc, process.Engine{Root: process.Ref{PID: p.GetPid(), StartTime: p.GetStartTime()}})
	if err != nil {
		return nil, err //nolint:wrapcheck // it says what it is about
	}
	members := make([]cgroup.Member, len(refs))
	for i, ref := range refs {
		members[i] = cgroup.Member(ref)
		if ref.PID == p.GetPid() {
			members[0], members[i] = members[i], members[0]
		}
	}
	return members, nil
}

// count takes note of processes that the kernel has killed. An earlier incarnation has told of those that an engine had survived.
func (c *cgroups) count(id string, facts cgroup.Facts, ended bool) {
	c.mu.Lock()
	e := c.engines[id]
	if e != nil && e.inherited && !ended {
		if facts.Empty { // it has ended, which is about to be found out: what was killed in it is why
			c.mu.Unlock()
			return
		}
		e.kills = facts.OOMKills
	}
	if e != nil {
		e.inherited = false
	}
	if e == nil || facts.OOMKills <= e.kills {
		c.mu.Unlock()
		return
	}
	more := facts.OOMKills - e.kills
	e.kills, e.killed = facts.OOMKills, time.Now()
	c.firstCountLocked(id, e.killed)
	c.mu.Unlock()
	c.kills.Add(float64(more))
	c.log.Warn("the kernel has killed processes of an engine for lack of memory", "allocation_id", id, "killed", more,
		"at_limit", facts.AtLimit, "limit_bytes", facts.MemoryMax)
}

// countOnce counts the kill of an engine that has no cgroup of ours, or none any more, unless it was: its launcher and the agent may see at the
// same time that it has ended.
func (c *cgroups) countOnce(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.firstCountLocked(id, time.Now()) {
		c.kills.Inc()
	}
}

// firstCountLocked takes note that a kill of the engine is counted, and reports whether none was lately.
func (c *cgroups) firstCountLocked(id string, now time.Time) bool {
	maps.DeleteFunc(c.counted, func(_ string, when time.Time) bool { return now.Sub(when) > killFresh })
	_, was := c.counted[id]
	c.counted[id] = now
	return !was
}

// others are the cgroups of allocations that are no engines, any more or yet.
func (c *cgroups) others(wanted map[string]wish) (ids []string) {
	tracked := make(map[string]bool)
	c.agent.locked(func(t *tracker.Tracker) {
		for _, e := range t.Engines() {
			tracked[e.ID] = true
		}
	})
	c.mu.Lock()
	defer c.mu.Unlock()
	for id := range c.engines {
		if _, is := wanted[id]; !is && !tracked[id] {
			ids = append(ids, id)
		}
	}
	return ids
}

// remove removes a cgroup that nobody is in. One that has processes stays, and is looked at again: an engine that is just being launched,
// or one that was released and runs on.
func (c *cgroups) remove(ctx context.Context, driver cgroup.Driver, id string) {
	if c.agent.launches.has(id) {
		return
	}
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
