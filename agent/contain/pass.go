package contain

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/bursar/bursar/agent/cgroup"
	"github.com/bursar/bursar/agent/policy"
	"github.com/bursar/bursar/agent/tracker"
)

// pass checks the engines that may have changed, or all of them, once.
func (c *Cgroups) pass(ctx context.Context) {
	c.mu.Lock()
	all, changed, settling := c.all, c.changed, c.settling
	c.all, c.changed, c.settling = false, make(map[string]bool), make(map[string][]chan struct{})
	c.mu.Unlock()
	defer c.settled(settling)
	if all && c.kernelLog != nil {
		if err := c.kernelLog.Read(); err != nil {
			c.log.DebugContext(ctx, "the kernel's log could not be read", "error", err)
		}
	}
	killed := all && c.killedSince()
	driver := c.open(ctx)
	if driver == nil || !c.find(ctx, driver) {
		if killed {
			for id, is := range c.desiredOf(all, changed) {
				c.countLogged(id, is.process)
			}
		}
		return
	}
	desired := c.desiredOf(all, changed)
	for id, want := range desired {
		if ctx.Err() != nil {
			return
		}
		c.ensure(ctx, driver, id, want, killed)
		if killed {
			c.countLogged(id, want.process)
		}
	}
	if !all {
		return
	}
	over, waiting := c.others(desired)
	for _, id := range over {
		c.remove(ctx, driver, id)
	}
	for _, id := range waiting {
		if c.emptied(ctx, driver, id) {
			c.remove(ctx, driver, id)
		}
	}
}

// find adds the cgroups that an earlier incarnation has made. It reports whether these cgroups are
// known.
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
	for _, f := range list {
		if f.Path == "" {
			continue // systemd has removed it
		}
		// An earlier incarnation that ended while it stopped the engine may have left it frozen.
		if err := driver.Thaw(f.Path); err != nil {
			c.failures.Inc()
			c.log.WarnContext(ctx, "an engine may be frozen: its cgroup could not be thawed", "allocation_id", f.ID, "cgroup", f.Path, "error", err)
		}
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

// findOnce calls find if the loop has not yet: an engine may have ended while no agent ran.
func (c *Cgroups) findOnce(ctx context.Context) {
	if c.found.Load() {
		return
	}
	if driver := c.open(ctx); driver != nil {
		c.find(ctx, driver)
	}
}

// ensure gives one engine its cgroup and its limits, if it does not have them. If the kernel may
// have killed processes of the engine, ensure counts them.
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
	// New limits are set at once; only a repeated attempt waits for the retry time.
	if before.limits != want.limits || !before.applied && !time.Now().Before(before.retry) {
		c.apply(ctx, driver, id, want, before)
	}
	c.mu.Lock()
	path, checked := e.path, e.checked
	c.mu.Unlock()
	if path != "" && time.Since(checked) >= holdsEvery {
		c.readBack(ctx, driver, id, want.limits)
	}
	if path != "" && path != want.process.GetCgroup() {
		c.options.Locked(func(t *tracker.Tracker) {
			grant, held := t.Get(id)
			if p := grant.GetProcess(); held && p.GetPid() == want.process.GetPid() && p.GetStartTime() == want.process.GetStartTime() {
				moved := proto.CloneOf(p) // other fields of it may have changed in the meantime
				moved.Cgroup = path
				t.SetProcess(id, moved)
			}
		})
		c.options.ScheduleSave()
	}
	if !killed && !before.inherited && before.applied {
		return
	}
	if facts, err := driver.Facts(ctx, id); err == nil {
		c.count(id, facts, false)
	}
}

// stays reports whether an engine under CgroupIfFree stays in its current cgroup, because a move
// would cost it a limit or its container.
func (c *Cgroups) stays(ctx context.Context, driver cgroup.Driver, id string, want desired, before contained) bool {
	if before.wouldLose != "" || before.applied || before.inherited || before.failed != "" {
		return before.wouldLose != ""
	}
	lost, err := driver.Lost(want.process.GetPid())
	if err == nil && lost == "" {
		return false
	}
	if errors.Is(err, cgroup.ErrNone) {
		return true // the engine has ended, and the next measurement notices it
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

// apply moves an engine to its cgroup, or changes the cgroup's limits.
func (c *Cgroups) apply(ctx context.Context, driver cgroup.Driver, id string, want desired, before contained) {
	path := before.path
	c.mu.Lock()
	c.engines[id].wouldLose = "" // from now on there may be a cgroup to remove, even if the move fails
	c.mu.Unlock()
	var err error
	if before.applied {
		err = driver.Set(ctx, id, want.limits)
	}
	if !before.applied || errors.Is(err, cgroup.ErrNone) {
		path, err = driver.Adopt(ctx, id, want.limits, func() ([]cgroup.Member, error) { return c.members(driver, id, want) })
	}
	if errors.Is(err, cgroup.ErrNone) || errors.Is(err, context.Canceled) && path == "" {
		return // the engine has ended, and the next measurement notices it; or the agent ends
	}
	c.mu.Lock()
	e := c.engines[id]
	e.limits, e.applied = want.limits, err == nil
	if err == nil || path != "" { // otherwise the engine was not moved
		e.path = path
	}
	again := false
	switch {
	case err != nil:
		again = c.noteFailure(e, err)
	case path == "": // its limits cannot be read back
		e.failed, e.failures, e.retry = "", 0, time.Time{}
	}
	e.checked = time.Time{}
	unread := e.path == "" // the limits are not read back
	c.mu.Unlock()
	if err != nil || unread {
		c.held(id, want.limits, err == nil)
	}
	switch {
	case err != nil:
		c.failed(ctx, id, err, again)
	case !before.applied:
		c.log.InfoContext(ctx, "an engine is in a cgroup of its own", "allocation_id", id, "cgroup", path, "limits", want.limits)
	default:
		c.log.InfoContext(ctx, "an engine's limits are set again", "allocation_id", id, "limits", want.limits)
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

// others returns the allocations with a cgroup that have no engine any more, or none yet. The
// cgroups of those in waiting may belong to another agent.
func (c *Cgroups) others(known map[string]desired) (over, waiting []string) {
	tracked := make(map[string]bool)
	c.options.Locked(func(t *tracker.Tracker) {
		for _, e := range t.Engines() {
			tracked[e.ID] = true
		}
	})
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, e := range c.engines {
		if _, is := known[id]; is || tracked[id] {
			continue
		}
		if time.Since(e.unknownSince) > unknownPatience {
			over = append(over, id)
		} else {
			waiting = append(waiting, id)
		}
	}
	return over, waiting
}

// emptied reports whether a cgroup had processes and has none any more. Then no agent is about to
// use it: its last processes, of an engine that was released, have ended.
func (c *Cgroups) emptied(ctx context.Context, driver cgroup.Driver, id string) bool {
	ctx, cancel := context.WithTimeout(ctx, factsTimeout)
	defer cancel()
	facts, err := driver.Facts(ctx, id)
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.engines[id]
	if err != nil || e == nil {
		return false
	}
	e.populated = e.populated || !facts.Empty
	return e.populated && facts.Empty
}

// remove removes a cgroup without processes. A cgroup with processes stays, and the next pass tries
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
