package commit

import (
	"context"
	"errors"
	"fmt"

	"github.com/bursar/bursar/coordinator/core"
	"github.com/bursar/bursar/coordinator/ledger"
)

// ErrNotAssigned ends a reading if its leadership is over or its provider has changed: the reading
// may be of another cluster.
var ErrNotAssigned = errors.New("the provider has changed, or the leadership")

// ChangeProvider puts or deletes a provider. When it returns, the change is durable, and readings
// of the earlier provider have no effect any more.
func (loop *Loop) ChangeProvider(ctx context.Context, name ledger.ClusterName, change func(*ledger.Ledger, ledger.Instant) error) error {
	return loop.change(ctx, loop.origin(ctx), func(c *core.Core, now ledger.Instant) error {
		return c.ChangeProvider(now, name, change)
	}, loop.refreshPollers) // so that the poller of the earlier provider stops
}

// DoPriority runs a command of the coordinator itself. It is never refused because the queue is
// full, and is answered at once. The error is that of run, or says that this coordinator does not
// lead. After an error the caller must not read run's results.
func (loop *Loop) DoPriority(ctx context.Context, from *core.Origin, run func(c *core.Core, now ledger.Instant) error) error {
	var failed error
	done := make(chan error, 1)
	loop.priority.put(&core.Call{
		From: from, AtOnce: true,
		Do: func(c *core.Core, now ledger.Instant) { failed = run(c, now) },
		Done: func(err error) {
			select {
			case done <- err:
			default: // a ledger that panics answers it again
			}
		},
	})
	if _, err := loop.await(ctx, done); err != nil {
		return err
	}
	return failed
}

// Assignments returns the clusters to read now.
func (loop *Loop) Assignments(ctx context.Context) ([]core.Assignment, error) {
	var list []core.Assignment
	err := loop.DoPriority(ctx, nil, func(c *core.Core, _ ledger.Instant) error {
		list = c.Assignments()
		return nil
	})
	if err != nil {
		return nil, err
	}
	return list, nil
}

// WhileAssigned runs a command for an assignment, unless the assignment is over.
func (loop *Loop) WhileAssigned(ctx context.Context, a *core.Assignment, run func(l *ledger.Ledger, now ledger.Instant) error) error {
	return loop.DoPriority(ctx, &core.Origin{Procedure: "reading of " + a.String()}, func(c *core.Core, now ledger.Instant) error {
		if !c.IsCurrent(a) {
			return ErrNotAssigned
		}
		return run(c.Ledger(), now)
	})
}

// SetProviders puts the providers of a file in force: now, if this coordinator leads, and in each
// later leadership.
func (loop *Loop) SetProviders(ctx context.Context, list []ledger.ProviderRecord) error {
	loop.configured.Store(&list)
	from := &core.Origin{Procedure: "providers of a file", Detail: fmt.Sprint(list)}
	err := loop.change(ctx, from, func(c *core.Core, now ledger.Instant) error {
		if err := c.ReplaceProviders(now, list); err != nil {
			return err
		}
		hidden := c.HiddenProviders()
		loop.hidden.Store(&hidden)
		return nil
	}, nil)
	switch {
	case errors.Is(err, core.ErrNotLeading): // the leader has a file of its own
		return nil
	case err == nil:
		loop.refreshPollers()
	}
	return err
}
