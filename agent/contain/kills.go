package contain

import (
	"maps"
	"time"

	"github.com/bursar/bursar/agent/cgroup"
	"github.com/bursar/bursar/agent/tracker"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// killedSince reports whether the kernel may have killed a process for lack of memory since the
// last pass over all engines. Only then does the pass read every cgroup.
func (c *Cgroups) killedSince() bool {
	var now *int64
	c.options.Locked(func(t *tracker.Tracker) { now = t.Sample().OutOfMemoryKills })
	before := c.killsSeen
	c.killsSeen = now
	return now == nil || before == nil || *now != *before
}

// count records the processes that the kernel has killed. An earlier incarnation has counted the
// kills that it saw and stored.
func (c *Cgroups) count(id string, facts cgroup.Facts, ended bool) {
	var stored int64
	c.options.Locked(func(t *tracker.Tracker) { stored = t.MemoryKills(id) })
	c.mu.Lock()
	e := c.engines[id]
	if e != nil && e.inherited && !ended {
		if facts.Empty {
			// the engine has ended, and the agent is about to notice it: the kills explain the end
			c.mu.Unlock()
			return
		}
		e.kills = min(facts.OOMKills, stored)
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
	limit := facts.MemoryMax
	if !facts.AtLimit {
		limit = 0
	}
	c.tell(id, more, limit)
	c.log.Warn("the kernel has killed processes of an engine for lack of memory", "allocation_id", id, "killed", more,
		"at_limit", facts.AtLimit, "limit_bytes", facts.MemoryMax)
}

// countOnce counts the kill of an engine that has no cgroup of ours, or none any more. It counts a
// kill once: the engine's launcher and the agent may both notice the end.
func (c *Cgroups) countOnce(id string) {
	c.mu.Lock()
	first := c.firstCountLocked(id, time.Now())
	c.mu.Unlock()
	if first {
		c.kills.Inc()
		c.tell(id, 1, 0)
	}
}

// tell counts kills as incidents of the engine. limit is as in tracker.MemoryKilled.
func (c *Cgroups) tell(id string, kills, limit int64) {
	c.options.Locked(func(t *tracker.Tracker) { t.MemoryKilled(id, time.Now(), kills, limit) })
	c.options.ScheduleSave()
}

// countLogged counts the kills in a cgroup that an engine's starter has made. Only the kernel's log
// shows them.
func (c *Cgroups) countLogged(id string, process *bursarv1.Process) {
	if c.kernelLog == nil || process.GetCgroup() == "" || c.isOurs(id, process.GetCgroup()) {
		return
	}
	_, kills := c.kernelLog.AtLimitOf(process.GetCgroup(), afterBoot(process.GetStartTime()))
	c.tellAll(id, kills)
}

// tellAll counts those of the kills in the kernel's log that were not counted before.
func (c *Cgroups) tellAll(id string, kills int64) {
	var more int64
	c.options.Locked(func(t *tracker.Tracker) { more = kills - t.MemoryKills(id) })
	if more > 0 {
		c.kills.Add(float64(more))
		c.tell(id, more, 0)
	}
}

// firstCountLocked records that a kill of the engine is counted. It reports whether no kill was
// counted recently.
func (c *Cgroups) firstCountLocked(id string, now time.Time) bool {
	maps.DeleteFunc(c.counted, func(_ string, when time.Time) bool { return now.Sub(when) > killFresh })
	_, was := c.counted[id]
	c.counted[id] = now
	return !was
}
