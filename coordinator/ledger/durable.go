package ledger

import "time"

// unstored is an entry that got a time to live with a revision.
type unstored struct {
	entry    *entry
	revision uint64
}

// setTTL gives the entry, which is about to be touched, a time to live; zero: it does not end by itself. The time is counted from now in
// what is stored and told, and by the timer from when that is durable.
func (l *Ledger) setTTL(e *entry, ttl time.Duration) {
	e.Expires, e.unstored, e.durableExpiry = 0, 0, 0
	if ttl > 0 {
		e.Expires, e.unstored = l.now.Add(ttl), l.revision+1
		l.unstored = append(l.unstored, unstored{e, e.unstored})
	}
}

// ttl is for how long the entry was last granted, renewed or leased; zero: it does not end by itself.
func (e *entry) ttl() time.Duration {
	switch {
	case e.State != Active:
		return e.ReservationTTL
	case e.Lease > 0:
		return e.Lease
	case e.tracked(), len(e.ApplicationIDs) > 0 && len(e.Entitled.External) > 0:
		return 0 // it lives as long as its process, or as its applications
	default:
		return DefaultLease
	}
}

// Durable says that everything up to a revision is durable now: the reservations and leases that were given, or renewed, since the
// last time begin to count. Before, none of them ends, and no caller has heard of it; a commit that takes longer than a time to live does
// not take it away. Rows are not changed by it: they tell the earliest end.
func (l *Ledger) Durable(now Instant, revision uint64) {
	now = max(now, l.now)
	done := 0
	for _, u := range l.unstored {
		if u.revision > revision {
			break
		}
		done++
		// Revisions come once: an entry that was confirmed, renewed, took a place in line again, or was reused for another has another.
		if e := u.entry; e.unstored == u.revision {
			e.unstored, e.durableExpiry = 0, now.Add(e.ttl())
			l.setEntryTimer(e)
		}
	}
	rest := copy(l.unstored, l.unstored[done:])
	clear(l.unstored[rest:])
	l.unstored = l.unstored[:rest]
}
