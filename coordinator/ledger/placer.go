package ledger

import (
	"fmt"

	"github.com/bursar/bursar/coordinator/hostlabels"
	"github.com/bursar/bursar/label"
	"github.com/bursar/bursar/resource"
)

// Slot numbers a host for a Placer: small, dense, used again after Remove.
type Slot int32

// NoSlot is the answer if no host fits.
const NoSlot Slot = -1

// HostView is what a Placer may know of a host.
type HostView struct {
	ID     string
	Labels label.Set
	// Limit is what the host could give if nothing ran: limit less protected. A dimension that is
	// not listed is not there.
	Limit resource.Vector
	// Available is what a request can get now by the account, and for memory never more than the
	// measured headroom. If the host is held for a request, it is what others get next to that one.
	// It is never negative.
	Available resource.Vector
	// Booked is used plus reserved, by the account alone. The policies score by it.
	Booked resource.Vector
	// LoadMillis is the measured load per core in thousandths; more is worse among equals.
	LoadMillis int64
	// Health and Measured must both be true for new grants. Health: the host is not suspect, lost,
	// cordoned or draining. Measured: it has a fresh measurement without pressure.
	Health   bool
	Measured bool
	// Held is set while the host is held for a request that waited too long.
	Held bool
}

// Query asks for a host.
type Query struct {
	Request resource.Vector
	Wishes  *Wishes // Host is empty
	// Turn changes from request to request. It spreads a burst over nearly equal hosts.
	Turn     uint64
	Rejected func(Slot) bool // hosts that are closed to the request's caller; nil: none
	Closed   func(Slot)      // Survey calls it for each host that it counts in Health; nil: not
	// Stride lets Survey look at one slot of so many, see Surveys; 0 or 1: at every host.
	Stride uint64
}

// Surveys reports whether Survey looks at the host in a slot.
func (q *Query) Surveys(slot Slot) bool {
	return q.Stride <= 1 || uint64(slot)%q.Stride == q.Turn%q.Stride //nolint:gosec // slots are not negative
}

// HostFilters counts the hosts that each step of a search removed, in the order of the steps.
type HostFilters struct {
	Total       int // that were looked at
	Labels      int // lack a required label, or are to be avoided
	Health      int // suspect, lost, cordoned, draining
	Measurement int // no fresh measurement, under pressure, refuse new engines, or rejected
	Books       int // too full by their accounts
	Headroom    int // the account would allow it, the measured headroom does not
	Held        int // could take the request, but are held for one that waits longer
	Fit         int // could take the request
	// Unmet says, if labels removed every host of the fleet, which conditions no host meets and
	// what hosts have there; else it is empty. A Placer leaves it empty.
	Unmet string
	// Fleet is how many hosts there are, if not all of them were looked at: Total is an even
	// sample of them then. A Placer leaves it empty.
	Fleet int
	// Closed are the hosts in Health by their reasons, the most frequent first, at most
	// closedReasons. A Placer leaves it empty.
	Closed []ClosedHosts
}

// ClosedHosts are the hosts that take no new engines for one reason.
type ClosedHosts struct {
	Note   Note   // NoteCordoned, NoteDraining or NoteHealth
	Reason string // what operators gave as the reason; of NoteHealth the state, or that the agent has ended
	Hosts  int
}

func (c ClosedHosts) String() string {
	what := string(c.Note)
	if c.Note == NoteHealth {
		return fmt.Sprintf("%d %s", c.Hosts, c.Reason)
	}
	return fmt.Sprintf("%d %s", c.Hosts, withReason(what, c.Reason))
}

func (f HostFilters) String() string {
	held, closed := "", ""
	if f.Held > 0 {
		held = fmt.Sprintf(", held %d", f.Held)
	}
	for i, c := range f.Closed {
		closed += []string{" (", ", "}[min(i, 1)] + c.String()
	}
	if closed != "" {
		closed += ")"
	}
	all := "in all"
	if f.Fleet > 0 {
		all = fmt.Sprintf("of %d looked at", f.Fleet)
	}
	text := fmt.Sprintf("hosts: %d %s, removed by labels %d, health %d%s, measurement %d, books %d, headroom %d%s; %d fit",
		f.Total, all, f.Labels, f.Health, closed, f.Measurement, f.Books, f.Headroom, held, f.Fit)
	if f.Unmet != "" {
		text += "; " + f.Unmet
	}
	return text
}

// Placer chooses hosts for requests that name none. The ledger owns the hosts and tells the Placer
// of every change; a Placer is deterministic and not safe for concurrent use.
type Placer interface {
	// Put adds the host in a slot or replaces what is known of it.
	Put(slot Slot, view HostView)
	// Book changes only what is available and booked on the host in a slot. Most changes are of
	// this kind: every grant and every release.
	Book(slot Slot, available, booked resource.Vector)
	// Remove forgets the host in a slot.
	Remove(slot Slot)
	// Choose returns the best host on which the request fits now, or NoSlot. Its cost does not
	// grow with the hosts.
	Choose(q Query) Slot
	// Closest returns the host that matches the wishes and has the most to give, fit or not, for
	// an explanation; or NoSlot.
	Closest(q Query) Slot
	// Possible reports whether any host that matches the wishes is large enough for the request if
	// nothing else ran, healthy or not.
	Possible(q Query) bool
	// Sized returns a host of those of Possible that Rejected does not reject, or NoSlot. They are
	// in an order that Turn changes.
	Sized(q Query) Slot
	// Largest returns the host that matches the wishes and could give the largest part of the
	// request if nothing else ran, healthy or not; or NoSlot.
	Largest(q Query) Slot
	// Survey counts what each filter removes. It looks at every host, or at those that the query
	// says.
	Survey(q Query) HostFilters
	// Census counts the hosts by their labels. It is valid until the next change.
	Census() *hostlabels.Census
}
