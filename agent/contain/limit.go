package contain

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/bursar/bursar/agent/cgroup"
	"github.com/bursar/bursar/agent/policy"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/resource"
)

// NoLimitError says why this host cannot hold an engine to the limit that its launcher has
// requested.
type NoLimitError struct {
	// Setting and Value are the setting of the agent's configuration that prevents the limit; empty
	// if no setting does.
	Setting, Value string
	Err            error
}

func (e *NoLimitError) Error() string {
	if e.Setting == "" {
		return "limit: the kernel does not hold the engine to it: " + e.Err.Error()
	}
	return fmt.Sprintf("limit: true: %s: %q in the agent's configuration of this host: %v", e.Setting, e.Value, e.Err)
}

// Unwrap returns the cause.
func (e *NoLimitError) Unwrap() error { return e.Err }

// CanLimit checks whether this host can hold any engine to a limit. The error is a *NoLimitError.
func (c *Cgroups) CanLimit(ctx context.Context) error {
	way := c.options.Settings().Way
	switch {
	case way == None:
		return &NoLimitError{"engines.cgroups", way, errors.New("want auto, systemd or direct for a limit, or a request without one")}
	case c.open(ctx) == nil:
		return &NoLimitError{"engines.cgroups", way, errors.New("no cgroups can be made here: want systemd, or a hierarchy of cgroups that the agent may write to, or a request without a limit")}
	}
	return nil
}

// Hold moves a running engine to a cgroup with the limits of its entitlement and reads the limits
// back, before the engine is confirmed. It returns the cgroup's path. The error is a *NoLimitError.
func (c *Cgroups) Hold(ctx context.Context, id string, labels map[string]string, process *bursarv1.Process, entitled *bursarv1.Resource) (string, error) {
	if err := c.CanLimit(ctx); err != nil {
		return "", err
	}
	p := c.options.Settings().Policies.For(labels)
	if p.Cgroup == policy.CgroupNever {
		return "", &NoLimitError{"engines.policies", "cgroup: false", errors.New("want a policy without it for these labels, or a request without a limit")}
	}
	driver := c.current()
	if !c.find(ctx, driver) {
		return "", &NoLimitError{Err: errors.New("the cgroups that there are could not be listed")}
	}
	want := desiredFor(p, process, entitled)
	c.mu.Lock()
	e := c.engines[id]
	if e == nil {
		// Until the engine is confirmed, the loop does not know it.
		e = &contained{unknownSince: time.Now()}
		c.engines[id] = e
	}
	before := *e
	c.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, containTimeout)
	defer cancel()
	c.apply(ctx, driver, id, want, before)
	c.mu.Lock()
	after := *c.engines[id]
	c.mu.Unlock()
	switch {
	case after.applied:
	case after.failed != "":
		return "", &NoLimitError{Err: errors.New(after.failed)}
	default:
		return "", &NoLimitError{Err: errors.New("the process has ended, or cannot be moved to a cgroup")}
	}
	return after.path, c.confirmLimit(ctx, driver, id, want.limits)
}

// confirmLimit checks that the kernel has set the memory limit, maybe rounded down to whole pages.
// The error is a *NoLimitError.
func (c *Cgroups) confirmLimit(ctx context.Context, driver cgroup.Driver, id string, limits cgroup.Limits) error {
	if limits.MemoryMax == 0 {
		return nil // the entitlement has no memory limit
	}
	facts, err := driver.Facts(ctx, id)
	if err != nil {
		return &NoLimitError{Err: err}
	}
	if facts.MemoryMax == 0 || facts.MemoryMax > limits.MemoryMax {
		return &NoLimitError{Err: fmt.Errorf("its cgroup has a limit of %s, want %s", memoryLimit(facts.MemoryMax), memoryLimit(limits.MemoryMax))}
	}
	return nil
}

func memoryLimit(bytes int64) string {
	if bytes == 0 {
		return "none"
	}
	return resource.FormatMemory(bytes)
}
