package ledger

import (
	"fmt"
	"time"

	"github.com/bursar/bursar/resource"
)

// Confirm makes a reservation active. Repeating it with the same process is fine.
//
// Errors: *NotFoundError (unknown or ended), *StateError, *DeniedError, *FieldError. On each the caller must stop the engine.
func (l *Ledger) Confirm(now Instant, c ConfirmCommand) (Allocation, error) {
	l.begin(now)
	e, err := l.lookup(c.ID)
	if err != nil {
		return Allocation{}, err
	}
	if err := e.may(c.Actor, "confirm"); err != nil {
		return Allocation{}, err
	}
	if c.HostID != "" && e.State.Holds() && c.HostID != e.HostID {
		return Allocation{}, &StateError{"allocation", e.ID.String(), "on host " + e.HostID, "one on host " + c.HostID}
	}
	if e.State == Active && sameProcess(e.Process, c.Process) {
		return e.Allocation, nil
	}
	if e.State != Reserved {
		return Allocation{}, &StateError{"allocation", e.ID.String(), e.State.String(), "reserved"}
	}
	entitled, err := confirmed(e.Entitled, c.Entitled)
	if err != nil {
		return Allocation{}, err
	}
	if c.Lease > 0 && c.Process.PID != 0 {
		return Allocation{}, &FieldError{"lease", c.Lease.String(), "none for an engine with a pid: it lives as long as its process"}
	}
	l.start(e, entitled, &c)
	l.settle()
	return l.reread(c.ID), nil
}

// start makes a reservation active.
func (l *Ledger) start(e *entry, entitled resource.Resource, c *ConfirmCommand) {
	l.entitle(e, entitled)
	l.activate(e)
	l.states[e.State]--
	e.State, e.Reason = Active, ""
	l.states[Active]++
	e.Confirmed = l.now
	e.Process, e.Address, e.ApplicationIDs, e.Lease = c.Process, c.Address, c.ApplicationIDs, c.Lease
	e.Expires = 0
	if c.Lease > 0 {
		e.Expires = l.now.Add(c.Lease)
	}
	if e.tracked() {
		e.host.digest += digestOf(e.ID)
	}
	l.touch(e)
	l.retime(e)
}

func sameProcess(a, b Process) bool {
	return a.PID == b.PID && (a.StartTime == b.StartTime || b.StartTime == 0)
}

// confirmed is the entitlement after a Confirm: as reserved where it says nothing, else what it says, which must not be more.
func confirmed(reserved resource.Resource, said *resource.Resource) (resource.Resource, error) {
	if said == nil {
		return reserved, nil
	}
	if err := said.Validate(); err != nil {
		return reserved, outOfRange("entitled", err)
	}
	next := overlay(reserved, *said)
	for dimension, quantity := range next.All() {
		if most := get(reserved.Vector, dimension); quantity > most {
			return reserved, &FieldError{"entitled." + dimension, fmt.Sprint(quantity), fmt.Sprintf("at most what is reserved, %d; Resize asks for more", most)}
		}
	}
	return next, nil
}

// overlay replaces the dimensions that are set.
func overlay(base, over resource.Resource) resource.Resource {
	for dimension, quantity := range over.All() {
		base.Vector = base.With(dimension, quantity)
	}
	return base
}

// reread returns a live allocation as it is after settling; the zero Allocation where it is gone.
func (l *Ledger) reread(id ID) Allocation {
	if e := l.entries[id]; e != nil {
		return e.Allocation
	}
	return Allocation{}
}

// Release ends an allocation in any state and gives everything back.
//
// Errors: *NotFoundError, which callers may take for success, and *DeniedError.
func (l *Ledger) Release(now Instant, c ReleaseCommand) (Allocation, error) {
	l.begin(now)
	e, err := l.lookup(c.ID)
	if err != nil {
		return Allocation{}, err
	}
	if err := e.may(c.Actor, "release"); err != nil {
		return Allocation{}, err
	}
	if c.HostID != "" && e.State.Holds() && c.HostID != e.HostID {
		return Allocation{}, &StateError{"allocation", e.ID.String(), "on host " + e.HostID, "one on host " + c.HostID}
	}
	e.Exit = c.Exit
	return l.ended(e, Released, orElse(c.Reason, "released by "+c.Actor.Name)), nil
}

func orElse(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}

// ended ends an entry and lets others have what it held.
func (l *Ledger) ended(e *entry, s State, reason string) Allocation {
	l.end(e, s, reason)
	last := l.changes.Transitions[len(l.changes.Transitions)-1]
	l.settle()
	return last
}

// Cancel ends a request that waits, or a reservation.
//
// Errors: *NotFoundError, *StateError (it is active), *DeniedError.
func (l *Ledger) Cancel(now Instant, c CancelCommand) (Allocation, error) {
	l.begin(now)
	id := c.ID
	if id == 0 {
		r := l.requests.find(keyOf(c.Actor.Name, c.RequestID))
		if !r.live() {
			return Allocation{}, &NotFoundError{What: "request", ID: c.RequestID}
		}
		id = r.id
	}
	e, err := l.lookup(id)
	if err != nil {
		return Allocation{}, err
	}
	if err := e.may(c.Actor, "cancel"); err != nil {
		return Allocation{}, err
	}
	if e.State == Active {
		return Allocation{}, &StateError{"allocation", e.ID.String(), "active", "waiting or reserved; Release or Stop ends an active one"}
	}
	return l.ended(e, Canceled, orElse(c.Reason, "canceled by "+c.Actor.Name)), nil
}

// Renew extends a reservation or a lease from now.
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
	case e.State == Active && e.Lease > 0:
		given = &e.Lease
	default:
		return Allocation{}, &StateError{"allocation", e.ID.String(), e.State.String() + " without a lease", "reserved, or active with a lease"}
	}
	if c.TTL > 0 {
		*given = c.TTL
	}
	e.Expires = l.now.Add(*given)
	l.touch(e)
	l.retime(e)
	return e.Allocation, nil
}

// Resize changes an entitlement: less at once, more if every account has it.
//
// Errors: *NotFoundError, *StateError (it waits), *DeniedError, *FieldError, *InsufficientError.
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
	if err := c.Entitled.Validate(); err != nil {
		return Allocation{}, outOfRange("entitled", err)
	}
	if len(c.Entitled.External) > 0 {
		return Allocation{}, &FieldError{"entitled.external[0].kind", c.Entitled.External[0].Kind, "a kind that a provider is configured for; none is"}
	}
	next := overlay(e.Entitled, c.Entitled)
	if err := l.roomFor(e, next.Vector); err != nil {
		return Allocation{}, err
	}
	l.entitle(e, next)
	l.touch(e)
	l.settle()
	return l.reread(c.ID), nil
}

// roomFor checks that every account has what an entitlement would grow by.
func (l *Ledger) roomFor(e *entry, next resource.Vector) error {
	growth := resource.Vector{}
	for dimension, quantity := range next.All() {
		if before := get(e.Entitled.Vector, dimension); quantity > before {
			growth = growth.With(dimension, quantity-before)
		}
	}
	if growth.IsZero() {
		return nil
	}
	more := entry{Allocation: Allocation{Entitled: resource.Resource{Vector: growth}, HostID: e.HostID}, filing: e.filing}
	if _, blocked := l.decide(&more); blocked != nil {
		return l.insufficient(&more)
	}
	return nil
}

// Stop asks the host's agent to end the engine. A request that waits or a reservation is canceled instead.
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
	reason := orElse(c.Reason, "stopped by "+c.Actor.Name)
	switch {
	case e.State != Active:
		return l.ended(e, Canceled, reason), nil
	case !e.tracked(): // there is no process here to end
		return l.ended(e, Released, reason), nil
	}
	e.Stopping, e.StopReason, e.StopGrace = true, reason, l.cfg.StopGrace
	if c.Grace != nil {
		e.StopGrace = *c.Grace
	}
	l.touch(e)
	return e.Allocation, nil
}
