package ledger

import (
	"strings"

	"github.com/bursar/bursar/label"
	"github.com/bursar/bursar/resource"
)

// # Engines on their agent's word alone
//
// An engine that runs is booked on the word of any agent. But if the ledger does not know it and no
// seal vouches for its grant, its host must not name the user: otherwise one agent fills the quotas
// of every user with invented engines. So such an engine counts for a user who stands for the host.
// The ledger keeps the agent's claims next to it, until an operator accepts them.

// hostUser comes before the id of a host in the name of the user that stands for it. No request can
// name such a user.
const hostUser = "@"

// checkUser refuses a user that stands for a host.
func checkUser(user string) error {
	if strings.HasPrefix(user, hostUser) {
		return &FieldError{"labels." + userKey, user, "a user whose name does not begin with @; such names stand for hosts, for engines that no operator has accepted yet"}
	}
	return nil
}

// adoptUnvouched adopts an engine on its agent's word alone.
func (l *Ledger) adoptUnvouched(h *host, r *EngineReport, sampled bool, in *intake) {
	a := l.adoptedAllocation(h, r, sampled)
	claim := a.Claimed // of an adoption before, as the agent was told it
	if claim == nil {
		claim = &Claim{Caller: a.Caller, RequestID: a.RequestID, Subordinate: a.Subordinate, Labels: a.Labels, Requested: a.Requested, Entitled: a.Entitled}
	}
	if claim.Entitled.Validate() != nil || claim.Requested.Validate() != nil {
		return // wire lets no such record through
	}
	claim = &Claim{
		Caller: validText(claim.Caller), RequestID: validText(claim.RequestID), Subordinate: isSubordinate(claim.Subordinate, claim.Caller), Labels: claim.Labels,
		Requested: claim.Requested, Entitled: claim.Entitled,
	}
	if in.claimable == nil {
		in.claimable = new(h.claimable())
	}
	a.ReservationTTL, a.Claimed = 0, claim
	a.Labels = label.Set{{Key: userKey, Value: hostUser + h.ID}}
	a.Subordinate, a.Priority, a.Requested = false, 0, resource.Resource{}
	if l.requests.find(keyOf(claim.Caller, claim.RequestID)).id == r.ID {
		// This very request had ended here: its caller still finds it.
		a.Caller, a.RequestID = claim.Caller, claim.RequestID
		l.identify(&a)
	} else {
		a.Caller, a.RequestID = hostUser+h.ID, ""
	}
	a.Entitled = resource.Resource{Vector: within(claim.Entitled.Vector, *in.claimable)}
	a.Reason = "adopted on its agent's word: no seal vouches for what the agent claims"
	if r.Without != "" {
		a.Reason += ", without what was damaged or too large there: " + r.Without
	}
	e := l.becomeAdopted(h, &a)
	if e == nil {
		return
	}
	*in.claimable = without(*in.claimable, a.Entitled.Vector)
	in.taken = true
	in.unvouched++
	l.updateOverUse(e, r.OverUse)
	l.recordEntry(e)
}

// claimable is the amount that further engines on the agent's word alone may count as on a host.
// All of them together count for no more than the host has: more cannot run there, and accounts of
// all users count them, too.
func (h *host) claimable() resource.Vector {
	left := h.Capacity
	for _, e := range h.entries {
		if e.Claimed != nil {
			left = without(left, e.Entitled.Vector)
		}
	}
	return left
}

// within is a vector in which no quantity is larger than in most. An engine is one instance, if the
// host does not limit instances.
func within(v, most resource.Vector) (cut resource.Vector) {
	for dimension, quantity := range v.All() {
		left, limited := most.Get(dimension)
		if dimension == resource.Instances && !limited {
			left = 1
		}
		cut = cut.With(dimension, max(0, min(quantity, left)))
	}
	return cut
}

// without is the rest of most after v was taken from it.
func without(most, v resource.Vector) resource.Vector {
	for dimension, quantity := range v.All() {
		if had, limited := most.Get(dimension); limited {
			most = most.With(dimension, max(0, had-quantity))
		}
	}
	return most
}

// acceptPlaces is how many places the engines that one Accept accepts may have together. See
// mostPlaces.
const acceptPlaces = 128

// Accept believes the claims of engines on a host: all, or those with these ids. From then on they
// count for the users that the agent names. It accepts a bounded number, at least one, and says how
// many are left.
//
// Errors: *NotFoundError, *StateError (of an id: it claims nothing, or its sums have no room).
func (l *Ledger) Accept(now Instant, hostID string, ids []ID, by string) (accepted []Allocation, left int, err error) {
	l.begin(now)
	h, err := l.host(hostID)
	if err != nil {
		return nil, 0, err
	}
	list, err := l.unacceptedOn(h, ids)
	if err != nil {
		return nil, 0, err
	}
	places, stuck := 0, ID(0)
	for i, e := range list {
		if places += 1 + queuesOf(e.Claimed.Entitled.External); i > 0 && places > acceptPlaces {
			break
		}
		id := e.ID
		if l.acceptEngine(e, by) {
			accepted = append(accepted, l.current(id))
		} else {
			stuck = id
		}
	}
	if len(accepted) == 0 && stuck != 0 {
		return nil, len(list), &StateError{"allocation", stuck.String(), "more than the sums of its accounts have room for", "one that claims less, or an end of its engine (bursar stop)"}
	}
	l.grantWaiting()
	return accepted, len(list) - len(accepted), nil
}

// unacceptedOn returns the entries of a host with claims, or those with these ids.
func (l *Ledger) unacceptedOn(h *host, ids []ID) (list []*entry, err error) {
	if len(ids) == 0 {
		for _, e := range h.entries {
			if e.Claimed != nil {
				list = append(list, e)
			}
		}
		return list, nil
	}
	seen := make(map[ID]bool, len(ids))
	for _, id := range ids {
		e := l.entry(id)
		switch {
		case e == nil || e.host != h:
			return nil, &NotFoundError{What: "allocation on host " + h.ID, ID: id.String()}
		case e.Claimed == nil:
			return nil, &StateError{"allocation", id.String(), "accepted, or was granted", "an engine that its agent alone vouches for"}
		case !seen[id]:
			list, seen[id] = append(list, e), true
		}
	}
	return list, nil
}

// acceptEngine files an entry again, as it is claimed to be. If that cannot be counted, it stays as
// it is.
func (l *Ledger) acceptEngine(e *entry, by string) bool {
	h, before, claim := e.host, e.Allocation, e.Claimed
	if !l.mayCreate(h, claim.Entitled.External) {
		return false
	}
	l.takeOut(e)
	a := before
	a.Claimed, a.Subordinate = nil, claim.Subordinate
	a.Caller, a.RequestID, a.Labels, a.Requested, a.Entitled = claim.Caller, claim.RequestID, claim.Labels, claim.Requested, claim.Entitled
	l.identify(&a)
	a.Reason = validText("adopted from its agent's report, accepted by " + by)
	next := l.becomeAdopted(h, &a)
	if next == nil {
		next = l.becomeAdopted(h, &before)
		l.recordEntry(next)
		return false
	}
	l.recordEntry(next)
	return true
}

// takeOut takes an entry that holds something out of all tables, to be filed again at once.
func (l *Ledger) takeOut(e *entry) {
	l.unhold(e)
	l.countState(e, -1)
	l.countOverUse(e, -1)
	l.removeUsage(e)
	l.ends.set(&e.timer, 0)
	l.entries.Delete(e.ID)
	l.requests.drop(e.key, e.ID)
	l.unlink(e)
	l.recycle(e)
}
