package contain

import (
	"context"
	"time"

	"github.com/bursar/bursar/agent/policy"
)

// settlePatience is how long Settle waits at most. systemd makes a scope within some 50 ms.
const settlePatience = 3 * time.Second

// Settle returns once the loop has looked at an engine: it has given the engine its cgroup and its
// limits, or has failed to. An engine that has not begun yet, because it waits for its
// confirmation, never sees other limits then. It waits for no engine without a cgroup of ours.
func (c *Cgroups) Settle(ctx context.Context, id string) {
	if !c.shallOwn(id) {
		return
	}
	looked := make(chan struct{})
	c.mu.Lock()
	c.settling[id] = append(c.settling[id], looked)
	c.changed[id] = true
	c.mu.Unlock()
	c.wake()
	patience := time.NewTimer(settlePatience)
	defer patience.Stop()
	select {
	case <-looked:
	case <-ctx.Done():
	case <-patience.C:
	}
}

// shallOwn reports whether an engine shall get a cgroup of ours.
func (c *Cgroups) shallOwn(id string) bool {
	if c.options.Settings().Way == None {
		return false
	}
	want, is := c.desiredOf(false, map[string]bool{id: true})[id]
	return is && want.own != policy.CgroupNever
}

// settled tells the callers of Settle that engines were looked at. The loop calls it at the end of
// each pass, however that ended.
func (c *Cgroups) settled(waiting map[string][]chan struct{}) {
	for _, list := range waiting {
		for _, looked := range list {
			close(looked)
		}
	}
}
