package ledger

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"
)

// Restore rebuilds the ledger from what was stored. It must be the first command. Liveness starts
// from the beginning: hosts are returning until they report, deadlines move by the time in which no
// coordinator led (see outage), leases and reservations get a grace (see graced), and requests that
// waited wait for their callers. Times in the rows that are later than now count as now. If the
// snapshot names a Filed, this must be its ledger, and only the remaining steps are done.
func (l *Ledger) Restore(now Instant, s Snapshot) error {
	if l.revision != 0 || s.Filed == nil && l.entries.Len() != 0 || s.Filed != nil && s.Filed.ledger != l {
		return fmt.Errorf("ledger: restore: already in use at revision %d", l.revision)
	}
	l.now, l.restored = now, now
	var more bool
	l.outages, more = ReadOutages(s.Outages).Until(now, s.Revision, s.Latest)
	var waiting []Allocation
	if s.Filed != nil {
		s.Filed.settle()
		waiting = s.Filed.waiters()
	} else {
		var err error
		if waiting, err = l.restoreRows(&s); err != nil {
			return err
		}
	}
	if more { // entries that were filed before have no changes
		l.changes.Outages = l.outages.Text()
	}
	l.revision, l.lastID = s.Revision, lastID(&s)
	l.rulesGeneration++
	patience := time.Duration(l.cfg.SuspectAfter) * l.Interval()
	l.clustersRead = now.Add(patience)
	if len(l.hostOrder) > 0 {
		l.hostsBack = now.Add(patience)
	}
	for _, h := range l.hostOrder {
		h.lastSync, h.gone, h.changed = now, departed{before: l.revision}, 0 // earlier departures are not known here
		h.StopTime, h.CordonedUntil = l.outages.moved(h.StopTime, h.Revision), l.outages.moved(h.CordonedUntil, h.Revision)
		l.endCordon(h)
		l.setHostTimer(h)
	}
	l.settleExpected()
	for i := range waiting {
		if err := l.restoreWaiting(&waiting[i], s.SetAside); err != nil {
			return fmt.Errorf("ledger: restore: %w", err)
		}
	}
	l.entries.Scan(func(_ ID, e *entry) bool { // in this order, whichever way they were filed
		if e.State.Holds() {
			l.settle(e)
		}
		l.setEntryTimer(e)
		return true
	})
	l.restoreRest(&s)
	return nil
}

// restoreRows files rules, hosts, and allocations that hold something. It returns those that wait.
func (l *Ledger) restoreRows(s *Snapshot) (waiting []Allocation, err error) {
	if err := l.fileRules(s); err != nil {
		return nil, err
	}
	for _, r := range hostsInOrder(s.Hosts) {
		if r.Expected {
			l.addExpected(r)
			continue
		}
		h := l.addHost(r)
		h.isReturning()
		l.updatePlacer(h)
	}
	allocations := sorted(s.Allocations, func(a, b Allocation) int { return cmp.Compare(a.ID, b.ID) })
	for i := range allocations {
		if allocations[i].State == Waiting {
			waiting = append(waiting, allocations[i])
			continue
		}
		if _, err := l.file(&allocations[i]); err != nil {
			return nil, fmt.Errorf("ledger: restore: %w", err)
		}
	}
	return waiting, nil
}

// fileRules puts the rules and the providers of a snapshot in force.
func (l *Ledger) fileRules(s *Snapshot) error {
	l.rules = newRuleset(bySource(s.Quotas))
	l.providers = slices.Clone(providersInOrder(s.Providers))
	if wrong, err := checkProviders(l.providers); err != nil {
		return fmt.Errorf("ledger: restore: %w", &RestoreError{"provider", wrong.String(), err})
	}
	for _, p := range l.providers {
		c := l.cluster(p.ClusterName)
		c.configured, c.since, c.terms = true, l.now, l.termsOf(p)
	}
	return nil
}

// restoreRest does the steps that need all rows in the tables.
func (l *Ledger) restoreRest(s *Snapshot) {
	for _, id := range slices.Sorted(maps.Keys(s.SetAside)) {
		switch e := l.entry(id); {
		case e == nil:
		case e.State == Waiting:
			l.becomeCanceled(e, s.SetAside[id])
		case e.State == Reserved: // after a veto it would wait again and be decided
			e.WaitDeadline = 0
		}
	}
	l.loseUnseen() // the file of providers may have changed meanwhile
	for _, h := range l.hostOrder {
		h.account.exceeded = h.account.overLimit()
	}
	for _, scope := range l.rules.scopes {
		scope.findExceeded()
	}
	for _, r := range sorted(s.Remembered, func(a, b Remembered) int { return cmp.Compare(a.Ended, b.Ended) }) {
		l.requests.remember(keyOf(r.Caller, r.RequestID), r.RequestHash, r.ID, l.rememberedUntil(r.Ended))
	}
	l.requests.recalling = s.Recalling
}

// TellsTimes reports whether the stored time and last id of a ledger are reliable. If not, the rows
// tell them, also the rows of ended allocations.
func TellsTimes(last Instant, lastID ID) bool {
	return last > 0 && last <= MaxInstant && lastID < ^ID(0)-spareIDs
}

// sorted returns the list in order. Stores return it in order already; only an unordered list is
// copied.
func sorted[T any](list []T, compare func(a, b T) int) []T {
	if slices.IsSortedFunc(list, compare) {
		return list
	}
	return slices.SortedFunc(slices.Values(list), compare)
}

// file puts a row that holds something into the tables, with its times as they are.
func (l *Ledger) file(a *Allocation) (*entry, error) {
	h := l.hosts[a.HostID]
	switch {
	case !a.State.Holds():
		return nil, unrestored(a.ID, "state %s: want a live one", a.State)
	case l.entry(a.ID) != nil:
		return nil, unrestored(a.ID, "twice")
	case h == nil:
		return nil, unrestored(a.ID, "no such host: %q", a.HostID)
	}
	if err := l.summableRow(a); err != nil {
		return nil, err
	}
	e := l.newEntry()
	e.Allocation = *a
	l.link(e)
	l.attachExternal(e, h) // which of them a provider knows is in its next report
	l.index(e)
	l.hold(e, h)
	return e, nil
}

// summableRow checks that every sum has room for a row of any caller.
func (l *Ledger) summableRow(a *Allocation) error {
	if largest(&a.Entitled) > mostTogether-l.together {
		return unrestored(a.ID, "with those before it quantities add up to more than %d", int64(mostTogether))
	}
	return nil
}

// settle corrects the times of an entry that was filed.
func (l *Ledger) settle(e *entry) {
	e.outlive(l.outages)
	e.notAfter(l.now)
	if e.Expires != 0 {
		e.Expires = l.graced(e)
	}
}

// restoreWaiting puts a request that waits into the tables, and decides it.
func (l *Ledger) restoreWaiting(a *Allocation, aside map[ID]string) error {
	if l.entry(a.ID) != nil {
		return unrestored(a.ID, "twice")
	}
	if err := l.summableRow(a); err != nil {
		return err
	}
	e := l.newEntry()
	e.Allocation = *a
	// In an outage nobody was passed over: the time until the request is starved moves by it.
	starves := l.outages.After(e.Created, l.cfg.StarvationAfter)
	waitsSince := min(starves.Add(-l.cfg.StarvationAfter), l.now)
	e.outlive(l.outages)
	e.notAfter(l.now)
	l.link(e)
	l.attachExternal(e, l.hosts[a.HostID]) // the one that it names may not be there yet
	l.index(e)
	e.waitState = &waitState{detached: l.now, waitsSince: waitsSince}
	if _, ends := aside[e.ID]; !ends && e.present() {
		_, blocked := l.decide(e) // no host gets grants before it reports
		l.enqueue(e, blocked)
	}
	return nil
}

// notAfter corrects the times of a row whose writer's clock was ahead of now. Nothing can have
// happened in the future, and no deadline is further away than it was when it was set.
func (e *entry) notAfter(now Instant) {
	if e.Created > now {
		wait := max(0, e.WaitDeadline.Sub(e.Created))
		e.Created = now
		if e.WaitDeadline != 0 {
			e.WaitDeadline = now.Add(min(wait, MaxInstant.Sub(now)))
		}
	}
	e.Reserved, e.Confirmed, e.PassedSince = min(e.Reserved, now), min(e.Confirmed, now), min(e.PassedSince, now)
	switch e.State {
	case Reserved:
		e.Expires = min(e.Expires, now.Add(e.ReservationTTL))
	case Active:
		e.Expires = min(e.Expires, now.Add(e.ttl()))
	default: // it does not expire
	}
}

// lastID returns the last assigned id, by the stored one. If that is too close to the end of the
// range it is wrong, and the rows' ids count.
func lastID(s *Snapshot) ID {
	if s.LastID < ^ID(0)-spareIDs {
		return s.LastID
	}
	last := ID(0)
	tells := func(id ID) {
		if id < ^ID(0)-spareIDs {
			last = max(last, id)
		}
	}
	if s.Filed != nil {
		s.Filed.EachID(tells)
	}
	for i := range s.Allocations {
		tells(s.Allocations[i].ID)
	}
	for i := range s.Remembered {
		tells(s.Remembered[i].ID)
	}
	return last
}
