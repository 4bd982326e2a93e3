package contain

import (
	"context"
	"time"

	"github.com/bursar/bursar/agent/policy"
)

// settlePatience is the longest time that Settle waits. systemd makes a scope within some 50 ms.
const settlePatience = 3 * time.Second

// Settle returns once the loop has checked an engine: the loop has set up the engine's cgroup and
// limits, or has failed to. So an engine that waits for its confirmation never sees other limits.
// Settle returns at once if the engine gets no cgroup of ours.
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

// shallOwn reports whether the agent gives an engine a cgroup.
func (c *Cgroups) shallOwn(id string) bool {
	if c.options.Settings().Way == None {
		return false
	}
	want, is := c.desiredOf(false, map[string]bool{id: true})[id]
	return is && want.own != policy.CgroupNever
}

// settled wakes the callers of Settle whose engines were checked. The loop calls it at the end of
// every pass, also after a failure.
func (c *Cgroups) settled(waiting map[string][]chan struct{}) {
	for _, list := range waiting {
		for _, looked := range list {
			close(looked)
		}
	}
}
