package contain

import (
	"errors"

	"github.com/bursar/bursar/agent/cgroup"
	"github.com/bursar/bursar/agent/policy"
	"github.com/bursar/bursar/agent/process"
	"github.com/bursar/bursar/agent/tracker"
)

// members lists the processes that belong in an engine's cgroup, the root first. They are the
// processes of the engine's user in the cgroup from which the engine is moved. A process in another
// engine's cgroup belongs to that engine. A process in a third cgroup may be there because of a
// limit, so it is moved only if the policy is CgroupAlways. Processes of another user stay outside,
// because the agent stops all processes of the engine's cgroup with the engine.
func (c *Cgroups) members(driver cgroup.Driver, id string, want desired) ([]cgroup.Member, error) {
	root := process.Ref{PID: want.process.GetPid(), StartTime: want.process.GetStartTime()}
	refs, err := process.Descendants(c.options.Proc, root)
	if errors.Is(err, process.ErrEnded) {
		return nil, errors.Join(cgroup.ErrNone, err)
	}
	if err != nil {
		return nil, err //nolint:wrapcheck // it says what it is about
	}
	user, err := c.options.Identify(root.PID)
	if err != nil {
		return nil, errors.Join(cgroup.ErrNone, err)
	}
	origin, err := c.originOf(driver, id, root.PID)
	if err != nil {
		return nil, err
	}
	members := []cgroup.Member{cgroup.Member(root)}
	for _, ref := range refs {
		if ref == root || c.isOtherEngine(ref) {
			continue
		}
		path, err := driver.PathOf(ref.PID)
		if err != nil || path != origin && (want.own != policy.CgroupAlways || !cgroup.Whole(path) || c.isOfAnother(path, id)) {
			continue
		}
		if found, err := c.options.Identify(ref.PID); err == nil && found.StartTime == ref.StartTime && found.UID == user.UID {
			members = append(members, cgroup.Member(ref))
		}
	}
	return members, nil
}

// originOf returns the cgroup from which an engine is moved: the one in which its root was first
// found.
func (c *Cgroups) originOf(driver cgroup.Driver, id string, root int32) (string, error) {
	c.mu.Lock()
	e := c.engines[id]
	if e != nil && e.origin != "" {
		defer c.mu.Unlock()
		return e.origin, nil
	}
	c.mu.Unlock()
	path, err := driver.PathOf(root)
	if err != nil {
		return "", err //nolint:wrapcheck // it says what it is about
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if e != nil {
		e.origin = path
	}
	return path, nil
}

// isOtherEngine reports whether a process, a descendant of one engine's root, is the root of
// another engine.
func (c *Cgroups) isOtherEngine(ref process.Ref) (is bool) {
	c.options.Locked(func(t *tracker.Tracker) { _, is = t.EngineOf(ref.PID, ref.StartTime) })
	return is
}

// isOfAnother reports whether a cgroup belongs to another engine.
func (c *Cgroups) isOfAnother(path, id string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for other, e := range c.engines {
		if other != id && e.path == path {
			return true
		}
	}
	return false
}
