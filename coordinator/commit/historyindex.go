package commit

import (
	"context"
	"errors"
	"time"

	"github.com/bursar/bursar/coordinator/store"
)

const (
	// indexEvery is the time between two looks at what has ended since, and indexAfter the age from
	// which on a row is put into the index of the history: what ended at the same moment is durable
	// by then. A search reads the rows that are not in the index yet one by one: at 500 ends a
	// second these are some 1,000, which takes 6 ms.
	indexEvery = time.Second
	indexAfter = time.Second
	// indexStep is how many allocations a step puts into the index.
	indexStep = 500
	// sweepEvery is the time between two searches for entries that have been left in the index, and
	// sweepStep how many entries a step of it looks at.
	sweepEvery = 24 * time.Hour
	sweepStep  = 1000
)

// historyIndex fills the index of the history behind what ends, and removes what was left in it.
// Only the leader does so.
type historyIndex struct {
	history *history

	// Owned by run:
	swept     time.Time        // when the last sweep began; zero: there was none
	sweptTo   store.IndexEntry // how far the present one has come
	sweepDone bool
}

// run works until ctx ends.
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
			// The history is found all the same, but slowly.
			x.history.loop.Log.Warn("cannot fill the index of the history", "error", err)
			next = x.history.config.PruneEvery
		}
		pause.Reset(next)
	}
}

// round fills the index up to what has just ended, and sweeps it if that is due.
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
	// Nearly all entries that are older have gone with their allocations.
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
