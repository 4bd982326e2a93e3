package contain

import (
	"maps"
	"time"

	"github.com/bursar/bursar/agent/cgroup"
	"github.com/bursar/bursar/agent/tracker"
)

// killedSince reports whether the kernel may have ended a process for lack of memory since the
// last pass over all engines. Only then is each cgroup read.
func (c *Cgroups) killedSince() bool {
	var now *int64
	c.options.Locked(func(t *tracker.Tracker) { now = t.Sample().OutOfMemoryKills })
	before := c.killsSeen
	c.killsSeen = now
	return now == nil || before == nil || *now != *before
}

// count notes the processes that the kernel has killed. If the engine survived kills before this
// incarnation, an earlier one has counted these.
func (c *Cgroups) count(id string, facts cgroup.Facts, ended bool) {
	c.mu.Lock()
	e := c.engines[id]
	if e != nil && e.inherited && !ended {
		if facts.Empty {
			// it has ended, which is about to be found out: what was killed in it is why
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

// countOnce counts the kill of an engine that has no cgroup of ours, or none any more, unless it
// was counted already: its launcher and the agent may see at the same time that it has ended.
func (c *Cgroups) countOnce(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.firstCountLocked(id, time.Now()) {
		c.kills.Inc()
	}
}

// firstCountLocked notes that a kill of the engine is counted, and reports whether none was
// counted lately.
func (c *Cgroups) firstCountLocked(id string, now time.Time) bool {
	maps.DeleteFunc(c.counted, func(_ string, when time.Time) bool { return now.Sub(when) > killFresh })
	_, was := c.counted[id]
	c.counted[id] = now
	return !was
}
