package ledger

import (
	"time"

	"github.com/bursar/bursar/internal/identity"
	"github.com/bursar/bursar/label"
	"github.com/bursar/bursar/resource"
)

// State is where an allocation is in its life. The values are stored: only add values, never
// renumber them.
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

// Allocation is one entry of the ledger, as a value. The values behind its pointers never change,
// so a copy is a snapshot.
type Allocation struct {
	ID        ID
	RequestID string // scoped to Caller; empty if the caller sent none
	Caller    string
	// RequestHash is of the request's body, to tell a repeat from another request under the same
	// id.
	RequestHash uint64
	Labels      label.Set
	Requested   resource.Resource // as asked for; one that names no instances is one
	Entitled    resource.Resource // what it counts as in its accounts: at first, that after normalization
	HostID      string            // the host it is on; while it waits, the only host it wants
	HostAddress string
	Wishes      *Wishes // nil: no wishes

	// Reserved is the time from which it holds something: when it was last granted, or when it was
	// adopted after it had ended here.
	Created, Reserved, Confirmed, Ended Instant
	// Expires is when a reservation or lease ends by itself, or a little later while it is not
	// durable. Zero: never.
	Expires Instant
	// WaitDeadline is when the wait is over, or would have been over. A vetoed grant waits again
	// until then.
	WaitDeadline Instant
	// PassedSince is when another request was first granted ahead of this one while it waited.
	PassedSince Instant
	// ReservationTTL is zero only if the ledger never got the request: see Adopted.
	ReservationTTL time.Duration
	Lease          time.Duration // as asked for; zero: none was asked for. See DefaultLease

	Priority int32
	// MemoryLimit is the limit of memory that the kernel has for its cgroup, as its agent has read
	// it back; 0: none.
	MemoryLimit Pages
	State       State
	// Subordinate: the caller is a subordinate user id, which acts as itself. The label user is the
	// owner of its range, who is charged.
	Subordinate bool
	Async       bool // no caller waits for the answer: Get or Watch follows it
	OverLimit   bool // taken over from an agent although an account lacked the room
	// Forget says that its request id may be used again: it ended because no caller came back, or
	// it is adopted.
	Forget   bool
	Stopping bool // its agent was asked to end the engine, or will be if the engine runs
	// Releasing: its caller gave it back while its process lived. It counts until the process ends.
	Releasing bool
	StopGrace time.Duration
	// Reason says in words why it is in this state.
	Reason string
	// StopReason is sent to the agent with the order to stop.
	StopReason string

	Process        Process
	Address        string
	ApplicationIDs []string
	Exit           *ExitStatus // of the main process
	// LeaderEnd is the end of the main process of an engine that went on with others. Nil: there
	// was none, or it is not known.
	LeaderEnd *LeaderEnd
	// ErrorOutput is the last part of the engine's standard error. It may hold secrets of its user.
	ErrorOutput string

	// Measured is the last measured use of the engine's process tree, and Peak its greatest use of
	// memory and of cpu. CPUTime is its processor time so far. They are never counted, and stored
	// only of an engine that has ended.
	Measured resource.Vector
	Peak     Peak
	CPUTime  time.Duration
	// Unreclaimable is the part of its memory, in bytes, that the kernel cannot take back.
	Unreclaimable int64
	// OverUse is the use beyond the entitlement, as the agent reports it, by dimension, with the
	// values at the time when the over-use began. For an engine that has ended it is the over-use
	// at its end.
	OverUse []OverUse
	// Notes are the agent's remarks on the engine, next to its use; nil: none.
	Notes *Notes
	// Start is the known progress of the engine's start; nil: nothing is known.
	Start *Start

	// Claimed has the words of its host's agent about an engine that no seal vouches for, until an
	// operator accepts them. Until then it counts for the user that stands for its host. Nil: the
	// agent claims nothing.
	Claimed *Claim

	// Revision is the ledger's at the last transition, GrantRevision at the grant.
	Revision      uint64
	GrantRevision uint64
}

// RightsOf is the user who may act on the allocation. The label user names the one who pays for it.
func (a *Allocation) RightsOf() string { return rightsOf(a.Caller, a.Subordinate, a.Labels) }

func rightsOf(caller string, subordinate bool, labels label.Set) string {
	if user := actingUser(caller, subordinate); user != "" {
		return user
	}
	return labels.Value(userKey)
}

// ActingUser is the user that the caller acts as, if the label user is another one; otherwise it is
// empty.
func (a *Allocation) ActingUser() string { return actingUser(a.Caller, a.Subordinate) }

func actingUser(caller string, subordinate bool) string {
	if !subordinate {
		return ""
	}
	return identity.UserOf(caller)
}

// isSubordinate reports whether the ledger takes a caller for subordinate: its name must have the
// user.
func isSubordinate(said bool, caller string) bool { return said && identity.UserOf(caller) != "" }

// IsSubordinate reports whether a record that names an acting user is of a caller who acts as that
// user.
func IsSubordinate(caller, acting string) bool {
	return acting != "" && acting == identity.UserOf(caller)
}

// wishedHost is the host that the request names; empty: none.
func (a *Allocation) wishedHost() string {
	if a.Wishes == nil {
		return ""
	}
	return a.Wishes.Host
}

// Payer is the caller who is charged for the allocation. While nobody has accepted the
// claim of its agent, the label user stands for the host, and the claim names the owner.
func (a *Allocation) Payer() string {
	if a.Claimed == nil && !a.Subordinate { // nearly always
		return a.Caller
	}
	return a.claimedPayer()
}

func (a *Allocation) claimedPayer() string {
	labels, subordinate := a.Labels, a.Subordinate
	if c := a.Claimed; c != nil {
		labels, subordinate = c.Labels, c.Subordinate
	}
	if !subordinate {
		return a.Caller
	}
	return identity.ChargedName(a.Caller, labels.Value(userKey))
}

// Adopted reports whether everything that is known of the allocation comes from its host's agent,
// including its caller and its request id. The ledger adopted it from a report and has never known
// the request.
func (a *Allocation) Adopted() bool {
	return a.ReservationTTL == 0 && a.State != Waiting && a.State != Reserved
}

// BroughtBack reports whether the allocation had ended and a report of its host's agent brought it
// back. It holds something from that report on, which is after its engine had started.
func (a *Allocation) BroughtBack() bool {
	return !a.Adopted() && a.Confirmed != 0 && a.Confirmed < a.Reserved
}

// Claim is an unchecked statement of an agent about an engine.
type Claim struct {
	Caller, RequestID   string
	Subordinate         bool // as in Allocation
	Labels              label.Set
	Requested, Entitled resource.Resource
}

// ActingUser is as in Allocation.
func (c *Claim) ActingUser() string { return actingUser(c.Caller, c.Subordinate) }

// Wishes say where an allocation may go.
type Wishes struct {
	Host      string    // exactly this one
	Required  label.Set // labels that the host must have
	Preferred label.Set // more matches are better
	Avoid     []string  // host ids
	// Rules are conditions on labels; nil: there are none.
	Rules *Rules
}

// Process identifies an engine's process across pid reuse.
type Process struct {
	PID int32
	// Verified: the host's agent has seen the process, and that it is the caller's.
	Verified bool
	// Launched: the agent started it by a Launch, so that Release ends it.
	Launched  bool
	StartTime uint64 // clock ticks after boot
	Cgroup    string // its own, or empty
	BootID    string
}

// clean is the process with texts that rows can hold: valid UTF-8.
func (p Process) clean() Process {
	p.Cgroup, p.BootID = validText(p.Cgroup), validText(p.BootID)
	return p
}

// ExitStatus says how an engine's process ended.
type ExitStatus struct {
	Code   *int32 // nil if a signal ended it
	Signal int32
	// OutOfMemory says that the kernel ended it, or a process of it, because memory was short.
	OutOfMemory bool
}
