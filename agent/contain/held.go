package contain

import (
	"time"

	"github.com/bursar/bursar/agent/cgroup"
	"github.com/bursar/bursar/agent/tracker"
)

// held records whether the kernel holds an engine to the memory limit of its cgroup, as an incident
// of the engine if not. A failure to set a limit counts once, until a limit holds. Without a limit,
// held does nothing.
func (c *Cgroups) held(id string, limits cgroup.Limits, holds bool) {
	now := time.Now()
	c.options.Locked(func(t *tracker.Tracker) {
		if limits.MemoryMax > 0 && !holds {
			t.LimitNotHeld(id, now, limits.MemoryMax)
		} else {
			t.LimitHeld(id, now)
		}
	})
	c.options.ScheduleSave()
}
