package sim

import (
	"context"
	"errors"
	"maps"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/store"
)

// launchRows is the second record of what waits to be executed: the rows, and the live allocations
// that have one.
type launchRows struct {
	rows map[ledger.ID]bool      // that are stored
	of   map[ledger.ID]ledger.ID // the row of each live allocation that has one
	ever map[ledger.ID]bool      // all that were ever put
}

func newLaunchRows() launchRows {
	return launchRows{rows: make(map[ledger.ID]bool), of: make(map[ledger.ID]ledger.ID), ever: make(map[ledger.ID]bool)}
}

func (r *launchRows) clone() launchRows {
	return launchRows{rows: maps.Clone(r.rows), of: maps.Clone(r.of), ever: maps.Clone(r.ever)}
}

// commit takes a batch that the store has accepted. It holds that a launch has its row until its
// engine has begun for the last time, is ready or has ended, and no longer.
func (r *launchRows) commit(w *World, by string, batch *store.Batch) {
	for i := range batch.Launches {
		r.rows[batch.Launches[i].ID], r.ever[batch.Launches[i].ID] = true, true
	}
	for _, id := range batch.LaunchesRemoved {
		delete(r.rows, id)
	}
	for i := range batch.Transitions {
		a := &batch.Transitions[i]
		launch := a.Launch()
		if launch == nil {
			continue
		}
		delete(r.of, a.ID)
		switch {
		case launch.Row == 0 && a.State != ledger.Active && a.State.Live():
			w.failf(startsInvariant, "%s: %s is %s and has no row of its launch", by, a.ID, a.State)
		case launch.Row == 0:
		case !a.State.Live():
			w.failf(startsInvariant, "%s: %s is %s and has a row of its launch", by, a.ID, a.State)
		case launch.LogDirectory != "" && launch.Retries == 0, a.Phase() == ledger.Ready:
			w.failf(startsInvariant, "%s: %s has begun for the last time, and has a row of its launch", by, a.ID)
		default:
			r.of[a.ID] = launch.Row
		}
	}
	for _, row := range r.of {
		if !r.rows[row] {
			w.failf(startsInvariant, "%s: a live launch has the row %s, which is not stored", by, row)
		}
	}
	if len(r.rows) != len(r.of) {
		w.failf(startsInvariant, "%s: %d rows of launches are stored, for %d launches", by, len(r.rows), len(r.of))
	}
}

// checkEnd holds that the store has no row of a launch any more.
func (r *launchRows) checkEnd(w *World) {
	disk := w.store.place.Open()
	for row := range r.ever {
		if _, err := disk.Launch(context.Background(), row); !errors.Is(err, store.ErrNotFound) {
			w.failf(startsInvariant, "the row %s of a launch is stored at the end: %v", row, err)
		}
	}
}
