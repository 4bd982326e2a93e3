package admission

import (
	"context"

	"github.com/bursar/bursar/internal/pause"
)

// Send waits until a stream of a caller may send one more message. The streams of a caller wait for
// each other in the order of their calls of Send. The error is that of the context.
func (c *Controller) Send(ctx context.Context, caller Caller) error {
	return c.SendMany(ctx, caller, 1)
}

// SendMany waits until a stream of a caller may send so many more messages. More messages than the
// limit of a second count as that limit.
func (c *Controller) SendMany(ctx context.Context, caller Caller, messages int) error {
	c.mu.Lock()
	a := c.ofLocked(caller)
	if a == nil || a.sends == nil {
		c.mu.Unlock()
		return ctx.Err() //nolint:wrapcheck // as it is
	}
	now := c.now()
	wait := a.sends.limiter.ReserveN(now, min(messages, c.limits.Sends)).DelayFrom(now)
	c.mu.Unlock()
	if wait > 0 && pause.For(wait, ctx.Done(), nil) {
		return nil
	}
	return ctx.Err() //nolint:wrapcheck // as it is
}
