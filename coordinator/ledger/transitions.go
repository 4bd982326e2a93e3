package ledger

import (
	"time"

	"github.com/bursar/bursar/resource"
)

// # Transitions
//
// Each function here makes one transition of an allocation, and owns all conditions of the new
// state. No other code of the ledger sets a state; test/layout checks that.
//
//	waiting   It counts in no account and is on no host. It has a waitState, and is in a class while
//	          it has a caller. It expires at its WaitDeadline.
//	reserved  It counts as reserved in its host and in all of its accounts. It is in no class and
//	          has no claim. It expires after its ReservationTTL.
//	active    It counts as used there, and has no waitState. Its host knows the process, if it has
//	          one. It expires only if it has a lease.
//	          stopping: its agent has an order to end the engine.
//	          releasing: its caller gave it back while its process lived. It ends with its process.
//	          Its phase is starting if its agent watches when it is ready.
//	ended     It is in no table, counts nowhere, and has no timer. Its request id is remembered, or
//	          free again if Forget is set. The row of its launch is deleted, or its successor's.
//	          Its phase is not starting any more, unless its host is lost.
//
// A transition that frees quantities marks the queues that may get them. The command grants the
// requests that wait there when it has made all of its transitions (grantWaiting).

// becomeWaiting makes an entry wait behind a queue. The entry is new in the tables, or its agent
// has refused the grant.
func (l *Ledger) becomeWaiting(e *entry, blocked *queue, reason string) {
	if e.State == Reserved {
		l.unhold(e)
		e.Reserved = 0
		if e.wishedHost() == "" {
			e.HostID, e.HostAddress = "", ""
		}
	}
	l.setState(e, Waiting, reason)
	l.setTTL(e, 0)
	if e.waitState == nil {
		e.waitState = &waitState{waitsSince: l.now}
	}
	if e.present() {
		l.enqueue(e, blocked)
	} else {
		e.detached = l.now
	}
	l.recordEntry(e)
	l.setEntryTimer(e)
}

// becomeAmended gives a request that waits another size, priority or wait. It is granted if it fits
// now. Otherwise it waits again, by its arrival.
func (l *Ledger) becomeAmended(e *entry, next *Allocation) {
	requeued := next.Priority != e.Priority || !next.Entitled.Equal(e.Entitled)
	if requeued {
		l.dequeue(e)
		l.countCallerBytes(e, -e.overhead())
		l.countLargest(e, largest(&next.Entitled)-largest(&e.Entitled))
		l.detachExternal(e)
	}
	e.Allocation = *next
	if requeued {
		l.attachExternal(e, nil)
		l.countCallerBytes(e, e.overhead())
	}
	if e.present() && e.class == nil {
		h, blocked := l.decide(e)
		if blocked == nil {
			l.becomeReserved(e, h)
			return
		}
		l.enqueue(e, blocked)
		e.Reason = l.why(blocked, e)
	}
	l.recordEntry(e)
	l.setEntryTimer(e)
}

// becomeReserved grants an entry that is new in the tables or waits: it holds its request on the
// host and in every account.
func (l *Ledger) becomeReserved(e *entry, h *host) {
	l.stopWaiting(e)
	l.setState(e, Reserved, "")
	e.HostID, e.HostAddress = h.ID, h.Address
	e.Reserved = l.now
	l.setTTL(e, e.ReservationTTL)
	e.GrantRevision = l.revision + 1
	l.hold(e, h)
	for c := range (charges{e, h}).all {
		if !c.vector.IsZero() || !c.account.name.OfParts() {
			c.account.grants.add(e)
		}
	}
	l.hostGrants.add(e, h)
	l.recordEntry(e)
	l.setEntryTimer(e)
}

// becomeActive makes a reservation active: its engine runs.
func (l *Ledger) becomeActive(e *entry, entitled resource.Resource, c *ConfirmCommand) {
	l.entitle(e, entitled)
	e.waitState = nil
	l.moveToUsed(e)
	l.setState(e, Active, "")
	e.Confirmed = l.now
	e.confirm(entitled, c)
	e.shareTexts(e.host)
	l.setTTL(e, e.ttl())
	if e.tracked() {
		e.host.track(e)
	}
	if launch := e.Launch(); launch != nil && launch.Watched {
		l.notePhase(e, Starting, "")
	} else {
		l.notePhase(e, c.Phase, validText(c.PhaseReason))
	}
	l.recordEntry(e)
	l.setEntryTimer(e)
	l.takeProcess(e)
}

// becomeAdopted puts an engine that runs on a host into the tables and counts it in its accounts,
// over a limit if necessary. It returns nil if a sum has no room for it. The caller completes the
// entry and records it.
func (l *Ledger) becomeAdopted(h *host, a *Allocation) *entry {
	e := l.newEntry()
	e.Allocation = *a
	e.State = Active
	l.link(e)
	l.attachExternal(e, h)
	if !l.countable(e) {
		l.discard(e)
		return nil
	}
	e.OverLimit = !l.hasRoom(e)
	l.index(e)
	l.hold(e, h)
	for c := range l.charges(e).all {
		c.account.exceeded = c.account.overLimit()
	}
	return e
}

// becomeStopping orders the end of an engine that may run: its agent gets the order with the next
// heartbeat.
func (l *Ledger) becomeStopping(e *entry, reason string, grace time.Duration) {
	e.Stopping, e.StopReason, e.StopGrace = true, reason, grace
	l.recordEntry(e)
}

// becomeReleasing notes that the caller of an engine gave it back while its process lives. It
// counts until its agent has seen the end, its host is lost, or an operator forces the release.
// exit and output are the caller's word about the end, which the agent may not know.
func (l *Ledger) becomeReleasing(e *entry, reason string, exit *ExitStatus, output string) {
	e.Releasing, e.Reason = true, reason
	e.Exit, e.ErrorOutput = exit, output
	l.recordEntry(e)
}

// becomeReleased ends an entry whose engine has ended, or which has none.
func (l *Ledger) becomeReleased(e *entry, reason string) { l.becomeEnded(e, Released, reason) }

// becomeExpired ends an entry that was not confirmed, renewed or granted in time.
func (l *Ledger) becomeExpired(e *entry, reason string) { l.becomeEnded(e, Expired, reason) }

// becomeCanceled ends a request or a reservation that nobody wants any more.
func (l *Ledger) becomeCanceled(e *entry, reason string) { l.becomeEnded(e, Canceled, reason) }

// becomeLost ends an entry whose host does not report any more.
func (l *Ledger) becomeLost(e *entry, reason string) { l.becomeEnded(e, Lost, reason) }

// becomeEnded ends an entry for good, in one of the four states above.
func (l *Ledger) becomeEnded(e *entry, s State, reason string) {
	l.stopWaiting(e)
	if e.State.Holds() {
		l.unhold(e)
	}
	if e.Ended = l.now; s != Lost || e.State != Active || e.Process.PID != 0 { // see LostLease
		e.Expires = 0
	}
	if s == Lost && e.Releasing { // nobody but its caller has seen an end
		e.Exit, e.ErrorOutput = nil, ""
	}
	if e.Measured.Validate() != nil { // it is stored from now on
		e.Measured = resource.Vector{}
	}
	if e.Phase() == Starting && s != Lost { // a lost host may come back with it
		l.notePhase(e, Failed, withReason("it ended before it was ready", reason))
	}
	// not needed any more, and it may be the largest part of a row that is kept for 30 days
	e.Wishes = nil
	e.Forget = e.Forget || e.Adopted()
	l.dropLaunchRow(e)
	l.setState(e, s, reason)
	l.recordEntry(e)
	l.countOverUse(e, -1)
	l.removeUsage(e)

	l.ends.set(&e.timer, 0)
	l.entries.Delete(e.ID)
	l.spend(e.ID)
	if e.Forget {
		l.requests.drop(e.key, e.ID)
	} else {
		l.requests.remember(e.key, e.RequestHash, e.ID, l.now.Add(l.cfg.RequestRetention))
	}
	l.unlink(e)
	l.recycle(e)
}

// returnLost turns the row of an engine that its host had lost into an allocation that runs again.
// See RenewLost.
func (l *Ledger) returnLost(row *Allocation) Allocation {
	a := *row
	a.State, a.Ended, a.Expires, a.OverUse, a.Forget, a.Releasing = Active, 0, 0, nil, false, false
	a.Reserved, a.Confirmed = l.now, min(a.Confirmed, l.now-1) // see BroughtBack
	a.GrantRevision = l.revision + 1
	return a
}

// endLost records that an engine that its host had lost has ended. It is in no table. See
// ReleaseLost.
func (l *Ledger) endLost(row *Allocation, reason string) Allocation {
	e := &entry{Allocation: *row}
	e.State, e.Reason, e.Ended, e.Expires = Released, reason, l.now, 0
	l.recordEntry(e)
	l.noteReturned(e.ID)
	return e.Allocation
}

// setState gives an entry that is in the tables another state, and counts it there instead.
func (l *Ledger) setState(e *entry, s State, reason string) {
	l.countState(e, -1)
	e.State, e.Reason = s, reason
	l.countState(e, 1)
}

// countState counts, or with -1 discounts, an entry in its state. Entries that have ended are not
// counted.
func (l *Ledger) countState(e *entry, by int) {
	if e.State.Live() {
		l.states[e.State] += by
	}
}
