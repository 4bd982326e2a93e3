package admission

import (
	"context"

	"github.com/bursar/bursar/internal/pause"
)

// Send waits until a stream of a caller may send one more message. The streams of a caller wait
// for each other in the order in which they ask. The error is that of the context.
func (c *Controller) Send(ctx context.Context, caller Caller) error {
	c.mu.Lock()
	a := c.ofLocked(caller)
	if a == nil || a.sends == nil {
		c.mu.Unlock()
		return ctx.Err() //nolint:wrapcheck // as it is
	}
	now := c.now()
	wait := a.sends.limiter.ReserveN(now, 1).DelayFrom(now)
	c.mu.Unlock()
	if wait > 0 && pause.For(wait, ctx.Done(), nil) {
		return nil
	}
	return ctx.Err() //nolint:wrapcheck // as it is
}
