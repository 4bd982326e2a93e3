package contain

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/bursar/bursar/agent/cgroup"
	"github.com/bursar/bursar/agent/tracker"
	"github.com/bursar/bursar/resource"
)

const (
	// firstRetry is the pause after the first failure. Each further failure doubles the pause, up
	// to containPatience.
	firstRetry = time.Second
	// holdsEvery is the interval at which an engine's limit is read again: another program may have
	// changed it.
	holdsEvery = time.Minute
	// holdsTries is how often a limit is read until it equals the limit that was set. holdsPause is
	// the time between two reads. systemd answers before it has written all limits.
	holdsTries = 5
	holdsPause = 20 * time.Millisecond
)

// retryAfter returns the pause after this number of consecutive failures.
func retryAfter(failures int) time.Duration {
	if failures > 6 { // 64 s
		return containPatience
	}
	return min(firstRetry<<max(0, failures-1), containPatience)
}

// LimitError reports that the kernel's limit, Got, differs from the limit that was set, Want.
type LimitError struct{ Want, Got int64 }

func (e *LimitError) Error() string {
	got := "none"
	if e.Got > 0 {
		got = resource.ApproximateMemory(e.Got)
	}
	return fmt.Sprintf("limit of memory: the kernel has %s, not %s", got, resource.ApproximateMemory(e.Want))
}

// readBack reads an engine's memory limit from the kernel and tells the tracker. If the limit does
// not hold, the loop sets it again later.
func (c *Cgroups) readBack(ctx context.Context, driver cgroup.Driver, id string, want cgroup.Limits) {
	holds, wrong := c.limitOf(ctx, driver, id, want.MemoryMax)
	if errors.Is(wrong, cgroup.ErrNone) || errors.Is(wrong, context.Canceled) {
		return // the engine has ended, and the next measurement notices it; or the agent ends
	}
	c.options.Locked(func(t *tracker.Tracker) { t.SetMemoryLimit(id, holds) })
	c.held(id, want, wrong == nil)
	c.mu.Lock()
	e := c.engines[id]
	e.checked = time.Now()
	report := wrong != nil && e.applied // otherwise setting the limit has failed, which was reported
	again := false
	switch {
	case report:
		again = c.noteFailure(e, wrong)
		e.applied = false
	case e.applied:
		e.failed, e.failures, e.retry = "", 0, time.Time{}
	}
	c.mu.Unlock()
	if report {
		c.failed(ctx, id, wrong, again)
	}
}

// limitOf reads the memory limit of an engine; 0 means none. The error says why it is not the
// wanted limit.
func (c *Cgroups) limitOf(ctx context.Context, driver cgroup.Driver, id string, want int64) (holds int64, err error) {
	if want == 0 {
		return 0, nil
	}
	for range holdsTries {
		var facts cgroup.Facts
		if facts, err = driver.Facts(ctx, id); err != nil {
			return 0, err //nolint:wrapcheck // it names the cgroup
		}
		if holds = facts.MemoryMax; holds > 0 && holds <= want { // the kernel rounds it down to pages
			return holds, nil
		}
		pause := time.NewTimer(holdsPause)
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return holds, ctx.Err() //nolint:wrapcheck // the caller's own
		}
	}
	return holds, &LimitError{want, holds}
}

// noteFailure records the error and the time of the next attempt. It reports whether the previous
// failure had the same error. The caller holds c.mu.
func (c *Cgroups) noteFailure(e *contained, err error) (again bool) {
	again = e.failed == err.Error()
	e.failures++
	e.failed, e.retry = err.Error(), time.Now().Add(retryAfter(e.failures))
	return again
}
