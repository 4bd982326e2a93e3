package ledger

import "github.com/bursar/bursar/internal/identity"

// Signaled returns an allocation to whose engine an actor may send a signal: one that it may stop,
// with a process that the host's agent knows. The agent says whether a launched engine has begun.
// Signaled changes nothing.
//
// Errors: *NotFoundError, *DeniedError, *StateError.
func (l *Ledger) Signaled(now Instant, actor identity.Actor, id ID) (Allocation, error) {
	l.begin(now)
	e, err := l.lookup(id)
	if err != nil {
		return Allocation{}, err
	}
	if err := e.may(actor, "send a signal to the engine of"); err != nil {
		return Allocation{}, err
	}
	switch {
	case e.State != Active:
		return Allocation{}, &StateError{"allocation", id.String(), e.State.String(), "an engine that has begun"}
	case e.Process.PID == 0:
		return Allocation{}, &StateError{"allocation", id.String(), "without a process that an agent knows", "an engine that was confirmed with its process"}
	}
	return e.Allocation, nil
}
