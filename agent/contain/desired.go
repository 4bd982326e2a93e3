package contain

import (
	"github.com/bursar/bursar/agent/cgroup"
	"github.com/bursar/bursar/agent/policy"
	"github.com/bursar/bursar/agent/tracker"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// desired is the desired state of an engine's cgroup.
type desired struct {
	process *bursarv1.Process
	limits  cgroup.Limits
	// own says whether the agent makes a cgroup for the engine if it has none yet.
	own policy.Cgroup
}

// desiredOf returns the desired state of all engines, or of those in ids. It omits engines that
// this agent has not identified itself: the agent moves no process on a coordinator's word alone.
func (c *Cgroups) desiredOf(all bool, ids map[string]bool) map[string]desired {
	list := make(map[string]desired)
	policies := c.options.Settings().Policies
	c.options.Locked(func(t *tracker.Tracker) {
		var engines []tracker.Engine
		if all {
			engines = t.Engines()
		} else {
			for id := range ids {
				if e, is := t.Engine(id); is {
					engines = append(engines, e)
				}
			}
		}
		for _, e := range engines {
			grant, _ := t.Get(e.ID)
			if !e.Identified || e.Process.GetStartTime() == 0 {
				continue
			}
			list[e.ID] = desiredFor(policies.For(grant.GetLabels()), e.Process, grant.GetEntitled())
		}
	})
	return list
}

// desiredFor returns the desired state of an engine under a policy.
func desiredFor(p policy.Policy, process *bursarv1.Process, entitled *bursarv1.Resource) desired {
	limit := process.GetLimit()
	if limit {
		p = p.Limited()
	}
	// A cgroup from the engine's launcher is as good, but the agent sets limits only on its own
	// cgroups.
	own := p.Cgroup
	if given := process.GetCgroup() != "" && p.Action != policy.Limit && !limit; given {
		own = policy.CgroupNever
	}
	return desired{process: process, limits: limitsOf(p, limit, entitled), own: own}
}

// limitsOf returns the limits of an engine. They hold it to its entitlement if its policy is Limit
// or its launcher has requested a limit; otherwise they set only its share of busy processors. A
// limit that a launcher requests has no tolerance.
func limitsOf(p policy.Policy, limit bool, entitled *bursarv1.Resource) cgroup.Limits {
	const (
		millisPerWeight = 10 // a weight of 100, which is the kernel's default, stands for a core
		leastWeight     = 1
		mostWeight      = 10_000
	)
	var limits cgroup.Limits
	if millis := entitled.GetCpuMillis(); millis > 0 {
		limits.CPUWeight = min(max(millis/millisPerWeight, leastWeight), mostWeight)
	}
	if p.Action != policy.Limit && !limit {
		return limits
	}
	limits.CPUMillis = max(0, entitled.GetCpuMillis())
	const beyond = 1 << 60 // no kernel takes more
	bound := p.Bound(entitled.GetMemoryBytes())
	if limit {
		bound = max(0, entitled.GetMemoryBytes())
	}
	if bound < beyond {
		limits.MemoryMax = bound
	}
	return limits
}
