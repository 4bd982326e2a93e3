package commit

import (
	"context"
	"errors"
	"time"

	"github.com/bursar/bursar/coordinator/store"
)

const (
	// indexEvery is the time between two updates of the history's index. indexAfter is the age from
	// which a row is indexed: by then, all rows with the same end are durable. A search reads the
	// rows that are not indexed yet one by one. At 500 ends a second these are some 1,000, which
	// takes 6 ms.
	indexEvery = time.Second
	indexAfter = time.Second
	// indexStep is how many allocations one step indexes.
	indexStep = 500
	// sweepEvery is the time between two searches for stale entries of the index, and sweepStep how
	// many entries one step of it reads.
	sweepEvery = 24 * time.Hour
	sweepStep  = 1000
)

// historyIndex indexes new ends in the history, and removes stale entries. Only the leader does so.
type historyIndex struct {
	history *history

	// Owned by run:
	swept     time.Time        // when the last sweep began; zero: there was none
	sweptTo   store.IndexEntry // the position of the current one
	sweepDone bool
}

// run updates the index until ctx ends.
func (x *historyIndex) run(ctx context.Context) {
	pause := time.NewTimer(indexEvery)
	defer pause.Stop()
	for {
		select {
		case <-pause.C:
		case <-ctx.Done():
			return
		}
		next := indexEvery
		if err := x.round(ctx); err != nil && ctx.Err() == nil && !errors.Is(err, store.ErrDeposed) {
			// Searches still work, but slowly.
			x.history.loop.Log.Warn("cannot fill the index of the history", "error", err)
			next = x.history.config.PruneEvery
		}
		pause.Reset(next)
	}
}

// round indexes the new ends, and sweeps the index if that is due.
func (x *historyIndex) round(ctx context.Context) error {
	loop := x.history.loop
	if !loop.leads.Load() {
		return nil
	}
	epoch := loop.lastEpoch.Load()
	current := func() bool { return ctx.Err() == nil && loop.leads.Load() && loop.lastEpoch.Load() == epoch }
	for current() {
		began := time.Now()
		n, err := loop.Store.IndexHistory(ctx, epoch, loop.Now().Add(-indexAfter), indexStep)
		if err != nil {
			return err //nolint:wrapcheck // says it
		}
		if n < indexStep {
			break
		}
		if !pauseAfter(ctx, began) {
			return nil
		}
	}
	if time.Since(x.swept) >= sweepEvery {
		x.swept, x.sweptTo, x.sweepDone = time.Now(), store.IndexBegin(), false
	}
	// Nearly all older entries were deleted with their allocations.
	before := loop.ago(loop.Clock.Earliest(), x.history.config.Retention)
	for current() && !x.sweepDone {
		began := time.Now()
		var err error
		if x.sweptTo, x.sweepDone, err = loop.Store.SweepIndex(ctx, x.sweptTo, before, sweepStep); err != nil {
			return err //nolint:wrapcheck // says it
		}
		if !pauseAfter(ctx, began) {
			return nil
		}
	}
	return nil
}
