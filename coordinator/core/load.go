package core

import (
	"context"
	"math"
	"time"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/store"
)

// Load reads what the ledger of a leadership that has just begun is rebuilt from: without the
// request ids of what has ended, which can be recalled later, if the store's meta tells the time
// and the last id, and whole is false. If not, it reads those that ended since a time, too.
func Load(ctx context.Context, from store.Store, meta store.Meta, since time.Time, whole bool) (ledger.Snapshot, error) {
	recalling := !whole && ledger.TellsTimes(meta.Time, meta.LastID) && endedBefore(ctx, from, meta.Time)
	if recalling {
		since = ledger.Instant(math.MaxInt64).Time()
	}
	snapshot, err := from.Load(ctx, meta.Epoch, since)
	snapshot.Recalling = recalling
	return snapshot, err //nolint:wrapcheck // says it
}

// endedBefore reports whether nothing in the store has ended after a time. A version that does not
// store its time may have led since another one has.
func endedBefore(ctx context.Context, from store.Store, last ledger.Instant) bool {
	latest, _, err := from.History(ctx, store.HistoryQuery{PageSize: 1})
	return err == nil && (len(latest) == 0 || latest[0].Ended <= last)
}
