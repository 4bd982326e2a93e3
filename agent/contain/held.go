package contain

import (
	"time"

	"github.com/bursar/bursar/agent/cgroup"
	"github.com/bursar/bursar/agent/tracker"
)

// held notes as an incident of the engine whether the kernel holds it to the limit of memory that
// its cgroup was to have. A failure to set a limit counts once, until a limit holds. Without a
// limit there is nothing to hold.
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
