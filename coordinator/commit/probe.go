package commit

import (
	"context"
	"time"

	"github.com/bursar/bursar/coordinator/core"
	"github.com/bursar/bursar/coordinator/ledger"
)

// Probe sends an empty command through the loop and the store.
func (loop *Loop) Probe(ctx context.Context) error {
	return loop.Do(ctx, func(*ledger.Ledger, ledger.Instant) {})
}

// aliveTime bounds how long Alive waits for the loop.
const aliveTime = 5 * time.Second

// Alive reports whether the loop still runs, whatever the store does.
func (loop *Loop) Alive(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, aliveTime)
	defer cancel()
	answered := make(chan struct{})
	// It must not join a batch: that would need a commit.
	loop.priority.put(&core.Call{AtOnce: true, Do: func(*core.Core, ledger.Instant) {}, Done: func(error) { close(answered) }})
	select {
	case <-answered:
		return nil
	case <-loop.done:
		return core.ErrStopping
	case <-ctx.Done():
		return ctx.Err()
	}
}
