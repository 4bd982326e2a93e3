package core

import (
	"context"
	"math"
	"time"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/store"
)

// Load reads the state from which the ledger of a new leadership is rebuilt. If the store's meta
// tells the time and the last id, and whole is false, it omits the request ids of ended
// allocations, which can be recalled later. Otherwise it reads those that ended after since. If
// take is not nil, take gets the live allocations.
func Load(ctx context.Context, from store.Store, meta store.Meta, since time.Time, whole bool, take store.Take) (ledger.Snapshot, error) {
	recalling := !whole && tellsAll(ctx, from, meta)
	if recalling {
		since = ledger.Instant(math.MaxInt64).Time()
	}
	snapshot, err := from.Load(ctx, meta.Epoch, since, take)
	snapshot.Recalling = recalling
	return snapshot, err //nolint:wrapcheck // says it
}

// tellsAll reports whether the store's meta tells everything that the rows of ended allocations
// would.
func tellsAll(ctx context.Context, from store.Store, meta store.Meta) bool {
	return ledger.TellsTimes(meta.Time, meta.LastID) && endedBefore(ctx, from, meta.Time)
}

// endedBefore reports whether no allocation in the store has ended after a time. A version that
// does not store its time may have led since the last one that does.
func endedBefore(ctx context.Context, from store.Store, last ledger.Instant) bool {
	latest, _, err := from.History(ctx, store.HistoryQuery{PageSize: 1})
	return err == nil && (len(latest) == 0 || latest[0].Ended <= last)
}

// Latest is the latest time in the store, without times that are impossible for a ledger. The last
// id has no usable time, because ids increase from any value.
func Latest(s *ledger.Snapshot) (last ledger.Instant) {
	tells := func(times ...ledger.Instant) {
		for _, at := range times {
			if at <= ledger.MaxInstant {
				last = max(last, at)
			}
		}
	}
	tells(s.Time)
	if s.Filed != nil {
		s.Filed.Each(func(a *ledger.Allocation) { tells(a.Created, a.Reserved, a.Confirmed) })
		s.Filed.EachHost(func(h *ledger.HostRecord) { tells(h.Registered) })
	}
	for i := range s.Allocations {
		a := &s.Allocations[i]
		tells(a.Created, a.Reserved, a.Confirmed)
	}
	for i := range s.Hosts {
		tells(s.Hosts[i].Registered)
	}
	for i := range s.Remembered {
		tells(s.Remembered[i].Ended)
	}
	return last
}
