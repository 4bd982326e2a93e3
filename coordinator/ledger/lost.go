package ledger

import (
	"fmt"
	"slices"
)

// A host that falls silent loses its allocations. Of an engine without a process there, the silence
// says nothing: it may run on. So
//
//   - one that lives as long as its applications stays active, because its clusters say when these
//     have ended. If no provider is configured for one of its clusters any more, nobody says it:
//     the engine becomes lost;
//   - one with a lease becomes lost, and frees its quantities, because its owner may be gone with
//     the host. If the owner renews it before it would have ended, it runs, and is active again.
//
// The ledger remembers a lost lease by its row alone, so that a coordinator that starts meanwhile
// knows as much.

// livesElsewhere reports whether clusters say when the engine has ended.
func (l *Ledger) livesElsewhere(e *entry) bool {
	if e.State != Active || e.Process.PID != 0 || e.Lease != 0 || len(e.ApplicationIDs) == 0 || len(e.Entitled.External) == 0 {
		return false
	}
	for i := range e.Entitled.External {
		c := l.clusters[ClusterName{e.Entitled.External[i].Kind, e.Entitled.External[i].Cluster}]
		if c == nil || !c.configured {
			return false
		}
	}
	return true
}

// loseUnseen ends the engines on lost hosts that nothing else would ever end: the provider of their
// cluster is gone.
func (l *Ledger) loseUnseen() {
	for _, h := range l.hostOrder {
		if h.state != LostHost {
			continue
		}
		for _, e := range slices.Backward(h.entries) { // ending an entry moves only those after it
			if e.ttl() == 0 && !l.livesElsewhere(e) {
				l.becomeLost(e, "host "+h.ID+" stopped reporting, and no provider says when its applications end")
			}
		}
	}
}

// LostLease reports whether a row is of an engine with a lease that its host has lost. Whether the
// lease is over yet it does not say.
func (a *Allocation) LostLease() bool {
	return a.State == Lost && a.Process.PID == 0 && a.Confirmed != 0 && a.Expires != 0
}

// mostReturned is how many lost leases that came back, or were released, the ledger remembers. They
// matter for the moment between the reading of a row and the command with it.
const mostReturned = 1 << 16

// lostLease checks a row that its caller has read from the store a moment ago.
func (l *Ledger) lostLease(a *Allocation) error {
	unknown := &NotFoundError{What: "allocation", ID: a.ID.String()}
	switch {
	case !a.LostLease() || l.entry(a.ID) != nil || a.Revision <= l.returned[a.ID]:
		return unknown
	case l.hosts[a.HostID] == nil: // an operator has removed it
		return unknown
	case l.outages.moved(a.Expires, a.Revision) <= l.now:
		return unknown
	}
	return nil
}

// noteReturned remembers that the rows of an allocation up to now are out of date.
func (l *Ledger) noteReturned(id ID) {
	if l.returned == nil || len(l.returned) >= mostReturned {
		l.returned = make(map[ID]uint64)
	}
	l.returned[id] = l.revision
}

// RenewLost makes an engine active again that its host had lost, because its owner renews its
// lease. lost is its row. If others have got its quantities, accounts are over limits, as after
// an adoption: the engine runs in any case.
//
// Errors: those of Renew; *NotFoundError if the lease would have ended meanwhile.
func (l *Ledger) RenewLost(now Instant, c RenewCommand, lost *Allocation) (Allocation, error) {
	l.begin(now)
	if l.entry(lost.ID) != nil {
		return l.Renew(now, c)
	}
	if err := l.lostLease(lost); err != nil {
		return Allocation{}, err
	}
	if err := (&entry{Allocation: *lost}).may(c.Actor, "renew"); err != nil {
		return Allocation{}, err
	}
	h, a := l.hosts[lost.HostID], l.returnLost(lost)
	if before := l.requests.find(keyOf(a.Caller, a.RequestID)); before.id != 0 && before.id != a.ID {
		a.RequestID = "" // the id is another request's
	}
	if c.TTL > 0 {
		a.Lease = c.TTL
	}
	e := l.becomeAdopted(h, &a)
	if e == nil {
		return Allocation{}, &StateError{"allocation", lost.ID.String(), "lost, and its quantities are more than can be added up now", "room for them"}
	}
	e.Reason = fmt.Sprintf("renewed by %s after host %s was lost", validText(c.Actor.Name), h.ID)
	l.setTTL(e, e.ttl())
	l.recordEntry(e)
	l.setEntryTimer(e)
	l.noteReturned(e.ID)
	return e.Allocation, nil
}

// ReleaseLost records that an engine that its host had lost has ended, so that no late renewal
// makes it active again. lost is its row.
//
// Errors: *NotFoundError if there is nothing to record, *DeniedError.
func (l *Ledger) ReleaseLost(now Instant, c ReleaseCommand, lost *Allocation) (Allocation, error) {
	l.begin(now)
	if l.entry(lost.ID) != nil {
		return l.Release(now, c)
	}
	if err := l.lostLease(lost); err != nil {
		return Allocation{}, err
	}
	row := *lost
	if err := (&entry{Allocation: row}).may(c.Actor, "release"); err != nil {
		return Allocation{}, err
	}
	row.Exit, row.ErrorOutput = c.Exit, validText(c.ErrorOutput)
	return l.endLost(&row, orElse(c.Reason, "released by "+c.Actor.Name)), nil
}
