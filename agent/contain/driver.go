package contain

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/bursar/bursar/agent/cgroup"
	"github.com/bursar/bursar/agent/launch"
	"github.com/bursar/bursar/agent/process"
	"github.com/bursar/bursar/agent/unit"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// open returns the driver, or nil if there is none. It opens the driver once; after a failure it
// tries again when containPatience has passed.
func (c *Cgroups) open(ctx context.Context) cgroup.Driver {
	c.opening.Lock()
	defer c.opening.Unlock()
	config := c.options.Settings()
	now := time.Now()
	if driver := c.current(); driver != nil || config.Way == None || !c.opened.IsZero() && now.Sub(c.opened) < containPatience {
		return driver
	}
	first := c.opened.IsZero()
	c.opened = now
	driver := c.options.Driver
	if driver == nil {
		ctx, cancel := context.WithTimeout(ctx, containTimeout)
		defer cancel()
		var err error
		if driver, err = openDriver(ctx, config); err != nil && first {
			c.log.WarnContext(ctx, "engines get no cgroups of their own", "cgroups", config.Way, "error", err)
		}
	}
	if driver == nil {
		if first && config.Way == Auto {
			c.log.InfoContext(ctx, "engines get no cgroups of their own: neither systemd nor a hierarchy of cgroups can be used here")
		}
		return nil
	}
	c.log.InfoContext(ctx, "engines can get cgroups of their own", "driver", driver.Name())
	c.mu.Lock()
	defer c.mu.Unlock()
	c.driver = driver
	return driver
}

// openDriver returns nil if Auto finds no usable driver.
func openDriver(ctx context.Context, config Settings) (cgroup.Driver, error) {
	options := cgroup.DirectOptions{Parent: config.Parent}
	switch config.Way {
	case Systemd:
		units, err := unit.Open(ctx, unit.Options{})
		if err != nil {
			return nil, err //nolint:wrapcheck // it says what it is about
		}
		return units, nil
	case Direct:
		direct, err := cgroup.OpenDirect(options)
		if err != nil {
			return nil, err //nolint:wrapcheck // it says what it is about
		}
		return direct, nil
	}
	// systemd would ask users other than root for a password.
	if os.Geteuid() == 0 {
		if units, err := unit.Open(ctx, unit.Options{}); err == nil {
			return units, nil
		}
	}
	if direct, err := cgroup.OpenDirect(options); err == nil && direct.Writable() {
		return direct, nil
	}
	return nil, nil //nolint:nilnil // nothing is found
}

// Spawner returns the spawner for the keeper of an engine with these labels, and the limits of the
// engine's own cgroup; nil limits mean no cgroup. If the launcher has requested a limit, the
// spawner does not start the keeper without one and fails with a *NoLimitError.
func (c *Cgroups) Spawner(ctx context.Context, labels map[string]string, entitled *bursarv1.Resource, limit bool) (launch.Spawner, *cgroup.Limits) {
	driver := c.open(ctx)
	if driver == nil {
		return c.options.Direct, nil
	}
	limits := limitsOf(c.options.Settings().Policies.For(labels), limit, entitled)
	return spawner{cgroups: c, driver: driver, direct: c.options.Direct, limit: limit}, &limits
}

// Helpers returns the spawner of processes that read something for the agent as another user.
// systemd starts them if it starts engines, because the agent's service may have no right to change
// users. Otherwise the agent starts them as its children.
func (c *Cgroups) Helpers() launch.Spawner { return helpers{c} }

type helpers struct{ cgroups *Cgroups }

// Spawn implements launch.Spawner.
func (h helpers) Spawn(ctx context.Context, q launch.Spawn) (launch.Spawned, error) {
	if units, ok := h.cgroups.open(ctx).(*unit.Units); ok {
		spawned, err := launch.ByUnit{Units: units}.Spawn(ctx, q)
		if !errors.Is(err, unit.ErrNotStarted) {
			return spawned, err //nolint:wrapcheck // it says what it is about
		}
	}
	return h.cgroups.options.Direct.Spawn(ctx, q) //nolint:wrapcheck // as above
}

// spawner starts keepers in cgroups of their own. If that fails, it starts them without a cgroup,
// unless limit requires one.
type spawner struct {
	cgroups *Cgroups
	driver  cgroup.Driver
	direct  *launch.Direct
	limit   bool
}

// enterer is a driver that can give a cgroup to a child of this process before the child starts
// others.
type enterer interface {
	Enter(ctx context.Context, id string, limits cgroup.Limits, pid int32) (string, error)
}

// guardedDriver is a driver that knows whether only the agent and root can move processes to the
// cgroup of this path.
type guardedDriver interface {
	Guarded(path string) bool
}

// Guarded reports whether the agent has made the cgroup for the engine and the cgroup can only hold
// processes that the engine has started or that the agent or root has moved there.
func (c *Cgroups) Guarded(ctx context.Context, id, path string) bool {
	if path == "" {
		return false
	}
	c.findOnce(ctx)
	driver, ok := c.current().(guardedDriver)
	return ok && c.isOurs(id, path) && driver.Guarded(path)
}

// Freezer returns a freezer of the engine's cgroup; nil if the agent has not made that cgroup, or
// if others may write to it.
func (c *Cgroups) Freezer(ctx context.Context, id, path string) process.Freezer {
	if !c.Guarded(ctx, id, path) {
		return nil
	}
	return frozenCgroup{c.current(), id, path}
}

// frozenCgroup is the cgroup of an engine that is being stopped.
type frozenCgroup struct {
	driver   cgroup.Driver
	id, path string
}

// Freeze implements process.Freezer.
func (f frozenCgroup) Freeze(ctx context.Context) (bool, error) {
	return f.driver.Freeze(ctx, f.path) //nolint:wrapcheck // it names the cgroup
}

// Thaw implements process.Freezer.
func (f frozenCgroup) Thaw() error {
	return f.driver.Thaw(f.path) //nolint:wrapcheck // it names the cgroup
}

// Empty implements process.Freezer.
func (f frozenCgroup) Empty(ctx context.Context) (bool, error) {
	facts, err := f.driver.Facts(ctx, f.id)
	return facts.Empty, err //nolint:wrapcheck // it names the cgroup
}

// Made reports whether the agent has made the cgroup for the engine. Until find has listed the
// existing cgroups, Made judges by the name. It never waits.
func (c *Cgroups) Made(id, path string) bool {
	return c.isOurs(id, path) || !c.found.Load() && cgroup.IsNameOf(id, path)
}

func (c *Cgroups) isOurs(id, path string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.engines[id]
	return e != nil && e.path == path
}

// Spawn implements launch.Spawner.
func (s spawner) Spawn(ctx context.Context, q launch.Spawn) (launch.Spawned, error) {
	spawned, err := s.spawn(ctx, q)
	if err != nil || !s.limit {
		return spawned, err
	}
	if err := s.cgroups.confirmLimit(ctx, s.driver, q.ID, *q.Limits); err != nil {
		// The keeper waits for its spec, and ends if the agent sends none.
		return launch.Spawned{}, err
	}
	return spawned, nil
}

func (s spawner) spawn(ctx context.Context, q launch.Spawn) (launch.Spawned, error) {
	limits := *q.Limits
	if units, ok := s.driver.(*unit.Units); ok {
		spawned, err := launch.ByUnit{Units: units}.Spawn(ctx, q)
		if err == nil {
			s.cgroups.launched(q.ID, spawned.Cgroup, limits, nil)
		}
		if !errors.Is(err, unit.ErrNotStarted) {
			return spawned, err //nolint:wrapcheck // it says what it is about
		}
		s.cgroups.failed(ctx, q.ID, err, false)
	}
	spawned, err := s.direct.Spawn(ctx, q)
	if err != nil {
		return launch.Spawned{}, err //nolint:wrapcheck // it says what it is about
	}
	driver, ok := s.driver.(enterer)
	if !ok {
		return spawned, nil
	}
	// The keeper waits for its spec, so no engine process can be outside the cgroup yet.
	path, err := driver.Enter(ctx, q.ID, limits, spawned.PID)
	if err != nil {
		s.cgroups.failed(ctx, q.ID, err, false)
	}
	if path != "" {
		spawned.Cgroup = path
		s.cgroups.launched(q.ID, path, limits, err)
	}
	return spawned, nil
}

// launched records an engine that starts in a cgroup of its own. If err is not nil, the engine has
// no limits yet, and the loop tries to set them.
func (c *Cgroups) launched(id, path string, limits cgroup.Limits, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.engines[id] = &contained{path: path, limits: limits, applied: err == nil}
}
