package ledger

import (
	"fmt"
	"time"

	"github.com/bursar/bursar/internal/identity"
	"github.com/bursar/bursar/resource"
)

// AmendCommand changes a request that waits, by id or by request id. At least one of Resource, Wait
// and Priority is set.
type AmendCommand struct {
	Actor     identity.Actor
	ID        ID
	RequestID string
	Resource  *resource.Resource // nil, or a dimension that is unset: as it is. None may become more
	Wait      time.Duration      // from now on; zero: it waits as long as before
	Priority  *int32             // nil: as it is
}

// Amend changes a request that waits. The request keeps its arrival, and so its place among those
// of its priority and its share. If it fits now, it is granted. With another wait, it needs no
// caller any more: Get and Watch follow it. A hold for it ends if the request changes in anything
// but its wait; it may get another one.
//
// Errors: *NotFoundError, *StateError (it does not wait), *DeniedError, *FieldError.
func (l *Ledger) Amend(now Instant, c AmendCommand) (Allocation, error) {
	l.begin(now)
	e, err := l.lookupRequest(c.Actor, c.ID, c.RequestID)
	if err != nil {
		return Allocation{}, err
	}
	if err := e.may(c.Actor, "amend"); err != nil {
		return Allocation{}, err
	}
	if e.State != Waiting {
		return Allocation{}, &StateError{"allocation", e.ID.String(), e.State.String(), "a request that waits; a resize changes one that was granted"}
	}
	next, err := l.amended(e, &c)
	if err != nil {
		return Allocation{}, err
	}
	l.becomeAmended(e, &next)
	l.grantWaiting()
	return l.current(next.ID), nil
}

// amended is a request that waits as it is after a command.
func (l *Ledger) amended(e *entry, c *AmendCommand) (next Allocation, err error) {
	next = e.Allocation
	if c.Resource == nil && c.Wait <= 0 && c.Priority == nil {
		return next, &FieldError{"resource", "", "a resource, a wait or a priority: the call changes nothing"}
	}
	if c.Priority != nil && *c.Priority != e.Priority {
		if !c.Actor.Priority {
			return next, &DeniedError{Actor: c.Actor.Name, Wanted: fmt.Sprintf("set priority %d", *c.Priority)}
		}
		next.Priority = *c.Priority
	}
	if c.Wait > 0 {
		next.WaitDeadline, next.Async = l.now.Add(c.Wait), true
	}
	if c.Resource != nil {
		if err := l.amendResource(&next, c.Resource); err != nil {
			return next, err
		}
	}
	return next, nil
}

// amendResource lowers the resources of a request. The error is a *FieldError.
func (l *Ledger) amendResource(next *Allocation, said *resource.Resource) error {
	if err := checkAsked(said.Vector); err != nil {
		return err
	}
	if err := said.Validate(); err != nil {
		return outOfRange("resource", err)
	}
	asked := next.Requested
	for dimension, quantity := range said.All() {
		most, limited := asked.Get(dimension)
		if !limited || quantity > most {
			return aboveWaiting("resource."+dimension, dimension, quantity, most)
		}
		asked.Vector = asked.With(dimension, quantity)
	}
	rounded, err := l.rules.normalize(next.Labels, asked.Vector)
	if err != nil {
		return err
	}
	entitled := next.Entitled
	for dimension, quantity := range entitled.All() { // a new rule may round up to more than before
		entitled.Vector = entitled.With(dimension, min(quantity, get(rounded, dimension)))
	}
	if len(said.External) > 0 {
		if entitled.External, err = l.amendParts(next, said.External); err != nil {
			return err
		}
		asked.External = entitled.External
	}
	if entitled.IsZero() {
		return &FieldError{"resource", "nothing", "more than nothing of a dimension; a cancel ends the request"}
	}
	next.Requested, next.Entitled = asked, entitled
	return nil
}

// amendParts lowers external parts of a request. The error is a *FieldError.
func (l *Ledger) amendParts(a *Allocation, said []resource.External) ([]resource.External, error) {
	resolved, err := l.resolve(said, a.Labels)
	if err != nil {
		return nil, err
	}
	for i := range resolved {
		at, found := partOf(a.Entitled.External, resolved[i].Address)
		if !found {
			return nil, &FieldError{"resource.external", resolved[i].Address.String(), wantedPart(a.Entitled.External)}
		}
		for dimension, quantity := range resolved[i].All() {
			if most := get(a.Entitled.External[at].Vector, dimension); quantity > most {
				return nil, aboveWaiting("resource.external["+resolved[i].Address.String()+"]."+dimension, dimension, quantity, most)
			}
		}
	}
	parts, _, err := overlayParts(a.Entitled.External, resolved)
	return parts, err
}

// aboveWaiting refuses more of a dimension than the request waits for.
func aboveWaiting(field, dimension string, quantity, most int64) error {
	return &FieldError{
		field, resource.FormatQuantity(dimension, quantity),
		"at most " + resource.FormatQuantity(dimension, most) + ", for which the request waits; more is another request",
	}
}
