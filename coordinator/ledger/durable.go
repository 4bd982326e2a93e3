package ledger

import "time"

// unstored is an entry that got a time to live at a revision which is not durable yet.
type unstored struct {
	entry    *entry
	revision uint64
}

// setTTL gives the entry, which is recorded next, a time to live; zero: it does not end by itself.
// In rows and answers the time counts from now. For the timer it counts from when the revision is
// durable.
func (l *Ledger) setTTL(e *entry, ttl time.Duration) {
	e.Expires, e.unstored, e.durableExpiry = 0, 0, 0
	if ttl > 0 {
		e.Expires, e.unstored = l.now.Add(ttl), l.revision+1
		l.unstored = append(l.unstored, unstored{e, e.unstored})
	}
}

// ttl is the time for which the entry was last granted, renewed or leased; zero: it does not end
// by itself.
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

// Durable says that everything up to a revision is durable now. The time of reservations and
// leases that were given or renewed since the last call begins to count. Before that none of them
// ends, and no caller knows of them: a commit that takes longer than a time to live does not end
// them. Rows do not change: they have the earliest end.
func (l *Ledger) Durable(now Instant, revision uint64) {
	now = max(now, l.now)
	done := 0
	for _, u := range l.unstored {
		if u.revision > revision {
			break
		}
		done++
		// A revision is given once: an entry that was confirmed, renewed, waits again, or was
		// reused for another allocation has a later one.
		if e := u.entry; e.unstored == u.revision {
			e.unstored, e.durableExpiry = 0, now.Add(e.ttl())
			l.setEntryTimer(e)
		}
	}
	rest := copy(l.unstored, l.unstored[done:])
	clear(l.unstored[rest:])
	l.unstored = l.unstored[:rest]
}
