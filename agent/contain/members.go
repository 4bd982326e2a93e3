package contain

import (
	"errors"

	"github.com/bursar/bursar/agent/cgroup"
	"github.com/bursar/bursar/agent/policy"
	"github.com/bursar/bursar/agent/process"
	"github.com/bursar/bursar/agent/tracker"
)

// members lists the processes of an engine that are to be in its cgroup, its root first: those of
// its user, in the cgroup that it is moved from. A process in another engine's cgroup belongs to
// that engine. A process in a third cgroup was put there, maybe under a limit: it is moved only if
// the policy moves the engine in any case. Processes of another user are left where they are: what
// is in the engine's cgroup is stopped with it.
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

// originOf is the cgroup that an engine is moved from, as its root was found there first.
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

// isOtherEngine reports whether a process is the root of an engine. It is asked of descendants of
// another.
func (c *Cgroups) isOtherEngine(ref process.Ref) (is bool) {
	c.options.Locked(func(t *tracker.Tracker) { _, is = t.EngineOf(ref.PID, ref.StartTime) })
	return is
}

// isOfAnother reports whether a cgroup is that of another engine.
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
