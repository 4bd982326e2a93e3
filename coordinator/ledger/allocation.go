package ledger

import (
	"time"

	"github.com/bursar/bursar/label"
	"github.com/bursar/bursar/resource"
)

// State is where an allocation is in its life. The values are stored: add, never renumber.
type State uint8

// The states of design §3: waiting, reserved and active are live, the others are ends.
const (
	Waiting State = iota + 1
	Reserved
	Active
	Released
	Expired
	Canceled
	Lost
)

var stateNames = [...]string{"none", "waiting", "reserved", "active", "released", "expired", "canceled", "lost"}

func (s State) String() string {
	if int(s) < len(stateNames) {
		return stateNames[s]
	}
	return "unknown"
}

// Live reports whether the allocation still waits or holds something.
func (s State) Live() bool { return s == Waiting || s == Reserved || s == Active }

// Holds reports whether the allocation counts in its accounts.
func (s State) Holds() bool { return s == Reserved || s == Active }

// Allocation is one entry of the ledger, as a value: what it points to is never changed, so a copy is a snapshot.
type Allocation struct {
	ID        ID
	RequestID string // scoped to Caller; empty where the caller sent none
	Caller    string
	// RequestHash is of the request's body, to tell a repeat from another request under the same id.
	RequestHash uint64
	State       State
	Labels      label.Set
	Requested   resource.Resource // as asked for, after normalization
	Entitled    resource.Resource // what it counts as in its accounts
	HostID      string            // the host it is on, or for one that waits, the only one it wants
	HostAddress string
	Wishes      *Wishes // nil: no wishes
	Priority    int32

	// Reserved is since when it holds something: when it was last granted, or adopted after it had ended here.
	Created, Reserved, Confirmed, Ended Instant
	// Expires is when a reservation or lease returns by itself, or a little later while that is not durable; zero: never.
	Expires Instant
	// WaitDeadline is when the wait is, or would have been, over; a vetoed grant goes back to waiting until then.
	WaitDeadline Instant
	// PassedSince is when others were first let past this request while it waited.
	PassedSince Instant
	// ReservationTTL is never zero of what was asked of the ledger: see Adopted.
	ReservationTTL time.Duration
	Lease          time.Duration // as asked for; zero: nothing was said. See DefaultLease

	Async     bool // nobody hangs on the line: followed by Get or Watch
	OverLimit bool // taken over from an agent although an account lacked the room
	Forget    bool // ended for lack of a caller, or adopted: its request id may be used again
	Stopping  bool // its agent has been asked to end the engine, or will be if it runs
	StopGrace time.Duration
	// Reason says in words why it is in this state.
	Reason string
	// StopReason is passed on to the agent with the order to stop.
	StopReason string

	Process        Process
	Address        string
	ApplicationIDs []string
	Exit           *ExitStatus
	// ErrorOutput is what the engine wrote last to its standard error. It may hold secrets of its user's.
	ErrorOutput string

	// Measured is what the engine's process tree was last seen to use; never stored, never counted.
	Measured resource.Vector
	// Unreclaimable is the part of its memory, in bytes, that the kernel cannot take back.
	Unreclaimable int64
	// OverUse is what it uses beyond its entitlement by its agent's word, by dimension, as that was when it began. Of an engine that has ended, what it
	// used in the end.
	OverUse []OverUse

	// Revision is the ledger's at the last transition, GrantRevision at the grant.
	Revision      uint64
	GrantRevision uint64
}

// Adopted reports whether all that is known of the allocation is the word of its host's agent, its caller and its request
// id too: the ledger has taken it over from a report, and has never known of the request.
func (a *Allocation) Adopted() bool {
	return a.ReservationTTL == 0 && a.State != Waiting && a.State != Reserved
}

// BroughtBack reports whether the allocation had ended, and its host's agent brought it back: it holds something from then on, which is after
// its engine had started.
func (a *Allocation) BroughtBack() bool {
	return !a.Adopted() && a.Confirmed != 0 && a.Confirmed < a.Reserved
}

// Wishes say where an allocation may go.
type Wishes struct {
	Host      string    // exactly this one
	Required  label.Set // host labels that must be there
	Preferred label.Set // more matches are better
	Avoid     []string  // host ids
}

// Process identifies an engine's process across pid reuse.
type Process struct {
	PID       int32
	StartTime uint64 // clock ticks after boot
	Cgroup    string // its own, or empty
	BootID    string
}

// clean is the process with texts as rows can hold them.
func (p Process) clean() Process {
	p.Cgroup, p.BootID = words(p.Cgroup), words(p.BootID)
	return p
}

// ExitStatus says how an engine's process ended.
type ExitStatus struct {
	Code   *int32 // nil where a signal ended it
	Signal int32
	// OutOfMemory says that the kernel ended it, or a process of it, because memory had run out.
	OutOfMemory bool
}
