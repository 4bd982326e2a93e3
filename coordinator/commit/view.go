package commit

import (
	"context"

	"github.com/bursar/bursar/coordinator/core"
	"github.com/bursar/bursar/coordinator/ledger"
)

// Setback returns the evidence that the store went back in time before this leadership.
func (loop *Loop) Setback(ctx context.Context) (s core.Setback, err error) {
	err = loop.call(ctx, func(c *core.Core, _ ledger.Instant) { s = c.Setback() })
	return s, err
}

// View returns an overview, once all that it shows is durable.
func (loop *Loop) View(ctx context.Context) (core.View, error) {
	var v core.View
	if err := loop.call(ctx, func(c *core.Core, _ ledger.Instant) { v = c.View() }); err != nil {
		return core.View{}, err
	}
	return v, nil
}
