package coordinator

import (
	"context"
	"errors"

	"github.com/bursar/bursar/coordinator/core"
	"github.com/bursar/bursar/coordinator/ledger"
)

// errSuperseded ends a reading whose leadership is over, or whose provider has changed: it may be of another cluster.
var errSuperseded = errors.New("the provider has changed, or the leadership")

// changeProvider puts or deletes a provider. When it returns that is durable, and what is read for the provider as it was before changes
// nothing any more.
func (w *writer) changeProvider(ctx context.Context, name ledger.ClusterName, change func(*ledger.Ledger, ledger.Instant) error) error {
	var failed error
	done := make(chan error, 1)
	_, err := w.send(ctx, &core.Call{
		From: originOf(ctx),
		Do:   func(c *core.Core, now ledger.Instant) { failed = c.ChangeProvider(now, name, change) },
		Done: func(err error) {
			done <- err
			w.reread() // at every answer, so that whoever reads the cluster as it was stops
		},
	}, done)
	if err != nil {
		return err
	}
	return failed
}

// within runs a command of the coordinator's own, in its turn. It is never refused for want of room, and answered at once. The error is
// run's, or says that this coordinator does not lead. After an error run's results must not be read.
func (w *writer) within(ctx context.Context, from *core.Origin, run func(c *core.Core, now ledger.Instant) error) error {
	var failed error
	done := make(chan error, 1)
	w.side.put(&core.Call{
		From: from, AtOnce: true,
		Do: func(c *core.Core, now ledger.Instant) { failed = run(c, now) },
		Done: func(err error) {
			select {
			case done <- err:
			default: // a ledger that panics is answered for by whoever sees that, too
			}
		},
	})
	if _, err := w.await(ctx, done); err != nil {
		return err
	}
	return failed
}

// assignments are the clusters that are to be read now.
func (w *writer) assignments(ctx context.Context) ([]core.Assignment, error) {
	var list []core.Assignment
	err := w.within(ctx, nil, func(c *core.Core, _ ledger.Instant) error {
		list = c.Assignments()
		return nil
	})
	if err != nil {
		return nil, err
	}
	return list, nil
}

// assigned runs a command for an assignment, unless that is over.
func (w *writer) assigned(ctx context.Context, a *core.Assignment, run func(l *ledger.Ledger, now ledger.Instant) error) error {
	return w.within(ctx, &core.Origin{Procedure: "reading of " + a.String()}, func(c *core.Core, now ledger.Instant) error {
		if !c.IsCurrent(a) {
			return errSuperseded
		}
		return run(c.Ledger(), now)
	})
}
