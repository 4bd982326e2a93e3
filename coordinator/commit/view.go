package commit

import (
	"context"

	"github.com/bursar/bursar/coordinator/core"
	"github.com/bursar/bursar/coordinator/ledger"
)

// DoWithSetback is Do with the evidence that the store went back in time before this leadership.
func (loop *Loop) DoWithSetback(ctx context.Context, f func(l *ledger.Ledger, now ledger.Instant, setback core.Setback)) error {
	return loop.call(ctx, func(c *core.Core, now ledger.Instant) { f(c.Ledger(), now, c.Setback()) })
}

// View returns an overview, once all of its data is durable.
func (loop *Loop) View(ctx context.Context) (core.View, error) {
	var v core.View
	if err := loop.call(ctx, func(c *core.Core, _ ledger.Instant) { v = c.View() }); err != nil {
		return core.View{}, err
	}
	return v, nil
}
