package ledger

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/bursar/bursar/resource"
)

// Confirm makes a reservation active. It may be repeated with the same process, and may then name
// further applications.
//
// Errors: *NotFoundError (unknown or ended), *StateError, *DeniedError, *FieldError, and
// *LiveFullError and *InsufficientError if it says more than a row has room for. On each of them
// the caller must stop the engine.
func (l *Ledger) Confirm(now Instant, c ConfirmCommand) (Allocation, error) {
	l.begin(now)
	e, err := l.lookup(c.ID)
	if err != nil {
		return Allocation{}, err
	}
	if err := e.may(c.Actor, "confirm"); err != nil {
		return Allocation{}, err
	}
	if err := e.mayConfirm(&c); err != nil {
		return Allocation{}, err
	}
	if e.State == Active {
		l.verify(e, c.Process)
		if l.notePhase(e, c.Phase, validText(c.PhaseReason)) {
			l.recordEntry(e)
		}
		return e.Allocation, l.addApplications(e, c.ApplicationIDs)
	}
	if c.Entitled != nil {
		if err := checkEntitled(e.Entitled.Vector, c.Entitled.Vector); err != nil {
			return Allocation{}, err
		}
	}
	entitled, err := confirmedResource(e.Entitled, c.Entitled)
	if err != nil {
		return Allocation{}, err
	}
	if c.Process.PID != 0 {
		entitled.Vector = withCountables(entitled.Vector, e.request())
	}
	if c.Lease > 0 && c.Process.PID != 0 {
		return Allocation{}, &FieldError{"lease", c.Lease.String(), "none for an engine with a pid: it lives as long as its process"}
	}
	if c.ApplicationIDs, err = appendApplications(nil, validTexts(c.ApplicationIDs)); err != nil {
		return Allocation{}, err
	}
	next := e.Allocation
	next.confirm(entitled, &c)
	if err := l.mayGrow(e, &next); err != nil {
		return Allocation{}, err
	}
	l.becomeActive(e, entitled, &c)
	l.grantWaiting()
	return l.current(c.ID), nil
}

// mayConfirm refuses a confirmation that contradicts the ledger's record of the engine.
func (e *entry) mayConfirm(c *ConfirmCommand) error {
	launch := e.Launch()
	switch {
	case c.HostID != "" && e.State.Holds() && c.HostID != e.HostID:
		return &StateError{"allocation", e.ID.String(), "on host " + e.HostID, "one on host " + c.HostID}
	case launch != nil && launch.Watched && c.Phase != PhaseUnknown:
		return &FieldError{"phase", phaseNames[c.Phase], "none for an engine that was started with a readiness: its host's agent watches it"}
	case e.State == Active && sameProcess(e.Process, c.Process):
		return nil
	case e.State == Active && e.Process.PID != 0:
		return &StateError{
			"allocation", e.ID.String(), fmt.Sprintf("active, with process %d", e.Process.PID), "that process, or a reservation for another one",
		}
	case e.State != Reserved:
		return &StateError{"allocation", e.ID.String(), e.State.String(), "reserved"}
	}
	return e.mayHave(c.Process)
}

// mostApplications is how many one allocation may have, as in the wire contract.
const mostApplications = 64

// appendApplications adds application ids that are not there yet. The list may be shared, so it is
// never changed. The error is a *FieldError.
func appendApplications(ids, more []string) ([]string, error) {
	list := slices.Clip(ids)
	for _, id := range more {
		if !slices.Contains(list, id) {
			list = append(list, id)
		}
	}
	if len(list) > mostApplications {
		return nil, &FieldError{"application_ids", fmt.Sprintf("%d of them", len(list)), fmt.Sprintf("at most %d for one allocation", mostApplications)}
	}
	return list, nil
}

// addApplications adds applications to those that are known of an active entry.
func (l *Ledger) addApplications(e *entry, ids []string) error {
	list, err := appendApplications(e.ApplicationIDs, validTexts(ids))
	if err != nil || len(list) == len(e.ApplicationIDs) {
		return err
	}
	next := e.Allocation
	next.ApplicationIDs = list
	if err := l.mayGrow(e, &next); err != nil {
		return err
	}
	e.ApplicationIDs = list
	if x := e.external; x != nil {
		x.changed = l.now
		for i := range x.memberships {
			x.memberships[i].ended = false
		}
	}
	if e.ttl() == 0 {
		l.setTTL(e, 0)
	}
	l.recordEntry(e)
	l.setEntryTimer(e)
	return nil
}

// confirm stores a confirmation.
func (a *Allocation) confirm(entitled resource.Resource, c *ConfirmCommand) {
	a.Entitled = entitled
	a.Process, a.Address, a.ApplicationIDs, a.Lease = c.Process.clean(), validText(c.Address), c.ApplicationIDs, c.Lease
}

func sameProcess(a, b Process) bool {
	return a.PID == b.PID && (a.StartTime == b.StartTime || b.StartTime == 0)
}

// confirmedResource returns the entitlement after a Confirm: the confirmed one, which must not
// exceed the reserved one, or the reserved one if the Confirm has none.
func confirmedResource(reserved resource.Resource, said *resource.Resource) (resource.Resource, error) {
	if said == nil {
		return reserved, nil
	}
	if err := said.Validate(); err != nil {
		return reserved, outOfRange("entitled", err)
	}
	next, places, err := merged(reserved, *said)
	if err != nil {
		return reserved, err
	}
	for i, at := range places {
		for dimension, quantity := range said.External[i].All() {
			if most := get(reserved.External[at].Vector, dimension); quantity > most {
				field := fmt.Sprintf("entitled.external[%d].%s", i, dimension)
				return reserved, aboveReserved(field, dimension, quantity, most)
			}
		}
	}
	for dimension, quantity := range next.All() {
		if most := get(reserved.Vector, dimension); quantity > most {
			return reserved, aboveReserved("entitled."+dimension, dimension, quantity, most)
		}
	}
	return next, nil
}

// aboveReserved refuses a Confirm that wants more of a dimension than is reserved.
func aboveReserved(field, dimension string, quantity, most int64) error {
	return &FieldError{
		field, resource.FormatQuantity(dimension, quantity),
		"at most what is reserved, " + resource.FormatQuantity(dimension, most) + "; a resize asks for more",
	}
}

// merged returns base with the dimensions replaced that over sets, and the index in it of each
// part of over. Both may be in range while the result is not: the dimensions of both count, also
// those that are zero. The error is a *FieldError.
func merged(base, over resource.Resource) (next resource.Resource, places []int, err error) {
	next = base
	for dimension, quantity := range over.All() {
		next.Vector = next.With(dimension, quantity)
	}
	if next.External, places, err = overlayParts(base.External, over.External); err != nil {
		return base, nil, err
	}
	if wrong, ok := errors.AsType[*resource.FieldError](next.Validate()); ok {
		return base, nil, &FieldError{"entitled." + wrong.Field, wrong.Value, wrong.Want + ", those that the allocation has counted in"}
	}
	return next, places, nil
}

// current returns a live allocation as it is now; the zero Allocation if it has ended.
func (l *Ledger) current(id ID) Allocation {
	if e := l.entry(id); e != nil {
		return e.Allocation
	}
	return Allocation{}
}

// orElse is the text of a command, or another text if it is empty.
func orElse(text, otherwise string) string {
	if text == "" {
		text = otherwise
	}
	return validText(text)
}

// lastTransition grants waiting requests after a command has freed resources, and returns the
// allocation that the command has changed.
func (l *Ledger) lastTransition() Allocation {
	last := l.changes.Transitions[len(l.changes.Transitions)-1]
	l.grantWaiting()
	return last
}

// Cancel ends a request that waits, or a reservation.
//
// Errors: *NotFoundError, *StateError (it is active), *DeniedError.
func (l *Ledger) Cancel(now Instant, c CancelCommand) (Allocation, error) {
	l.begin(now)
	e, err := l.lookupRequest(c.Actor, c.ID, c.RequestID)
	if err != nil {
		return Allocation{}, err
	}
	if err := e.may(c.Actor, "cancel"); err != nil {
		return Allocation{}, err
	}
	if e.State == Active {
		return Allocation{}, &StateError{"allocation", e.ID.String(), "active", "waiting or reserved; a release or a stop ends an active one"}
	}
	l.becomeCanceled(e, orElse(c.Reason, "canceled by "+c.Actor.Name))
	return l.lastTransition(), nil
}

// Renew extends a reservation or a lease, counted from when the renewal is durable.
//
// Errors: *NotFoundError, *StateError (it waits, or has no lease), *DeniedError.
func (l *Ledger) Renew(now Instant, c RenewCommand) (Allocation, error) {
	l.begin(now)
	e, err := l.lookup(c.ID)
	if err != nil {
		return Allocation{}, err
	}
	if err := e.may(c.Actor, "renew"); err != nil {
		return Allocation{}, err
	}
	var given *time.Duration
	switch {
	case e.State == Reserved:
		given = &e.ReservationTTL
	case e.State == Active && e.ttl() > 0:
		given = &e.Lease
	default:
		return Allocation{}, &StateError{"allocation", e.ID.String(), e.State.String() + " without a lease", "reserved, or active with a lease"}
	}
	if c.TTL > 0 {
		*given = c.TTL
	}
	l.setTTL(e, e.ttl())
	l.recordEntry(e)
	l.setEntryTimer(e)
	return e.Allocation, nil
}

// Resize changes an entitlement: less at once, more if every account has it.
//
// Errors: *NotFoundError, *StateError (it waits), *DeniedError, *FieldError (also for fewer
// countables than its process may use), *LiveFullError, *TooMuchError, *InsufficientError.
func (l *Ledger) Resize(now Instant, c ResizeCommand) (Allocation, error) {
	l.begin(now)
	e, err := l.lookup(c.ID)
	if err != nil {
		return Allocation{}, err
	}
	if err := e.may(c.Actor, "resize"); err != nil {
		return Allocation{}, err
	}
	if !e.State.Holds() {
		return Allocation{}, &StateError{"allocation", e.ID.String(), e.State.String(), "reserved or active"}
	}
	if err := checkEntitled(e.Entitled.Vector, c.Entitled.Vector); err != nil {
		return Allocation{}, err
	}
	if err := c.Entitled.Validate(); err != nil {
		return Allocation{}, outOfRange("entitled", err)
	}
	next, _, err := merged(e.Entitled, c.Entitled)
	if err != nil {
		return Allocation{}, err
	}
	if e.tracked() && !c.Actor.IsOperator() {
		if err := e.keepsCountables(next.Vector); err != nil {
			return Allocation{}, err
		}
	}
	if err := l.roomFor(e, next); err != nil {
		return Allocation{}, err
	}
	grown := e.Allocation
	grown.Entitled = next
	if err := l.mayGrow(e, &grown); err != nil {
		return Allocation{}, err
	}
	if err := l.summable(&grown, largest(&next)-largest(&e.Entitled)); err != nil {
		return Allocation{}, err
	}
	l.entitle(e, next)
	l.recordEntry(e)
	l.grantWaiting()
	return l.current(c.ID), nil
}

// roomFor checks that every account has room for the growth of an entitlement.
func (l *Ledger) roomFor(e *entry, next resource.Resource) error {
	more := entry{Allocation: Allocation{Entitled: resource.Resource{Vector: growth(e.Entitled.Vector, next.Vector)}, HostID: e.HostID}, accountSet: e.accountSet}
	grows := !more.Entitled.IsZero()
	if e.external != nil {
		more.external = &external{charges: slices.Clone(e.external.charges), set: e.external.set}
		more.external.growth = e.external.set.growth(e.Entitled.External, next.External)
		grows = grows || slices.ContainsFunc(more.external.growth, func(v resource.Vector) bool { return !v.IsZero() })
		for i := range more.external.charges {
			t := &more.external.charges[i]
			t.vector = e.growthIn(t, next.External)
			grows = grows || !t.vector.IsZero()
		}
	}
	if !grows {
		return nil
	}
	if _, blocked := l.decide(&more); blocked != nil {
		return l.growthRefusal(e, &more, next)
	}
	return nil
}

// growth returns the amounts of the next vector beyond the one before.
func growth(before, next resource.Vector) resource.Vector {
	more := resource.Vector{}
	for dimension, quantity := range next.All() {
		if had := get(before, dimension); quantity > had {
			more = more.With(dimension, quantity-had)
		}
	}
	return more
}

// Stop asks the host's agent to end the engine. A request that waits or a reservation is canceled
// instead. If the agent of a reservation's host has not reported all its engines yet, the
// reservation is canceled only if that report does not say that it runs: a store that was restored
// from a backup has lost confirmations.
//
// Errors: *NotFoundError, *DeniedError.
func (l *Ledger) Stop(now Instant, c StopCommand) (Allocation, error) {
	l.begin(now)
	e, err := l.lookup(c.ID)
	if err != nil {
		return Allocation{}, err
	}
	if err := e.may(c.Actor, "stop"); err != nil {
		return Allocation{}, err
	}
	grace := l.cfg.StopGrace
	if c.Grace != nil {
		grace = *c.Grace
	}
	reason := orElse(c.Reason, "stopped by "+c.Actor.Name)
	if c.Release && e.tracked() && !e.Releasing {
		l.becomeReleasing(e, reason, nil, "")
	}
	l.stopEntry(e, reason, grace)
	return l.lastTransition(), nil
}

// stopEntry stops an entry. If it has no process, it ends here; else its host's agent is asked to
// end the process.
func (l *Ledger) stopEntry(e *entry, reason string, grace time.Duration) {
	switch {
	case e.State == Reserved && e.host.needFull: // the report of its agent decides
	case e.State != Active:
		l.becomeCanceled(e, reason)
		return
	case !e.tracked(): // there is no process here to end
		l.becomeReleased(e, reason)
		return
	}
	l.becomeStopping(e, reason, grace)
}

// stopDrained stops the engines that are left on a draining host after its deadline, also those
// that are reported later.
func (l *Ledger) stopDrained(h *host) {
	if h.StopTime == 0 || h.StopTime > l.now {
		return
	}
	for _, e := range slices.Backward(h.entries) { // ending an entry moves only those after it
		if !e.Stopping {
			l.stopEntry(e, withReason("host "+h.ID+" is drained", h.Reason), l.cfg.StopGrace)
		}
	}
}
