package ledger

import (
	"time"

	"github.com/bursar/bursar/internal/identity"
	"github.com/bursar/bursar/label"
	"github.com/bursar/bursar/resource"
)

// Config holds the ledger's settings. The zero value of a field is its default.
type Config struct {
	// Dimensions are custom dimensions that rules may be for although no host lists them yet.
	// Default: none.
	Dimensions []string
	// FullPaths are the kinds of external parts whose queues are named by their full paths alone.
	// Of other kinds, paths that begin with "root" are full, and others may be the last element of
	// one. Default: none.
	FullPaths []string
	// Terms returns a provider's settings for requests to its cluster; nil: there are none. It must
	// be the same at each coordinator.
	Terms func(ProviderRecord) Terms
	// JoinCordoned makes hosts that are new to the ledger join cordoned. Default false.
	JoinCordoned bool
	// ReservationTTL is how long a grant lasts without Confirm, counted from when it is durable,
	// if the request does not say. Default 2 min.
	ReservationTTL time.Duration
	// Interval is the least time between two reports of a host; it grows with the number of hosts.
	// Default 5 s.
	Interval time.Duration
	// ReportsPerSecond bounds the reports of all hosts together: the interval is at least hosts /
	// ReportsPerSecond. Default 1000.
	ReportsPerSecond int
	// SuspectAfter is how many intervals without a report make a host suspect: no new grants.
	// Default 3.
	SuspectAfter int
	// LostAfter is how long a host may be silent before its allocations become lost. Default 5
	// min.
	LostAfter time.Duration
	// StarvationAfter is how long other requests may be granted ahead of a waiting one before its
	// account is held for it. Default 30 s.
	StarvationAfter time.Duration
	// CallerGrace is how long a waiting request keeps its place without a caller. Default 10 s.
	CallerGrace time.Duration
	// RequestRetention is how long a request id is remembered after its allocation ended. Default
	// 24 h.
	RequestRetention time.Duration
	// StopGrace is the time between SIGTERM and SIGKILL if a Stop does not say. Default 10 s.
	StopGrace time.Duration
	// HostLiveBytes is how many bytes of rows a host may have and still get a new grant. The rows
	// of one caller may have half of that on the host. Default: the constant of this name.
	HostLiveBytes int64
	// CallerLiveBytes is how many bytes of live rows one caller may have, LiveOverhead of each row
	// and QueueOverhead of its queues included. The callers of one host's agent together may have
	// as much, and each of them at most half of it. Default: the constant of this name.
	CallerLiveBytes int64
	// OwnChanges is how many transitions that came due by themselves go into one batch. The rest
	// goes into the next batches, so that callers do not wait for everything that is due at the
	// same moment. A host that is lost ends all its allocations at once. Default 512.
	OwnChanges int
}

// AllocateCommand asks for resources.
type AllocateCommand struct {
	Actor          identity.Actor
	RequestID      string
	RequestHash    uint64 // of the body; only compared
	Labels         label.Set
	Resource       resource.Resource
	Wait           time.Duration
	ReservationTTL time.Duration // zero: the default
	Wishes         *Wishes
	Priority       int32
	Async          bool
	Subordinate    bool // as in Allocation
	Name           string
	Launch         *LaunchRequest // nil: the caller starts the engine
	// Past is the store's record of the request id: the latest allocation, if that has ended; ID 0:
	// none. It must have been read since the ledger was restored. The ledger reads it only while it
	// is Recalling. Nil: the store was not asked.
	Past *Remembered
}

// AllocateResult is the result of an AllocateCommand.
type AllocateResult struct {
	// Allocation is reserved or waiting; for a repeat it has its present state. If Ended is set,
	// only its ID is set.
	Allocation Allocation
	// Ended says that this repeats a request whose allocation has ended: the store has the
	// allocation.
	Ended bool
}

// ConfirmCommand says that an engine runs.
type ConfirmCommand struct {
	Actor identity.Actor
	ID    ID
	// HostID is the agent's host, if it came through an agent. The allocation must be on it.
	HostID         string
	Entitled       *resource.Resource // nil: as reserved; it must not be more
	Process        Process
	Address        string
	ApplicationIDs []string
	Lease          time.Duration // zero: none, or DefaultLease
	// Phase and PhaseReason are how far the engine is; PhaseUnknown: as before.
	Phase       Phase
	PhaseReason string
}

// DefaultLease is the lease of an engine whose confirmation names no process, no lease, and no
// application of a part in another cluster. It is long enough for a day's work of a client that
// does not use leases. If the client has died, its allocation ends after this time.
const DefaultLease = 24 * time.Hour

// ReleaseCommand gives an allocation back.
type ReleaseCommand struct {
	Actor  identity.Actor
	ID     ID
	HostID string // the agent's host, if it came through an agent
	Reason string
	// ProcessEnded says that no process of the engine lives on HostID. Only the agent of the
	// allocation's host knows that.
	ProcessEnded bool
	// Force frees everything although a process of the engine may live. Only an operator may.
	Force bool
	// Exit is how the engine ended, and ErrorOutput the last part of its standard error. The
	// agent's values replace the caller's.
	Exit        *ExitStatus
	ErrorOutput string
	// Incidents are all that the host's agent has counted, if the call came through that agent.
	Incidents []Incident
	// Peak, PeakSource and CPUTime are the engine's use as the caller, or its agent, knows it;
	// unset: unknown.
	Peak       resource.Vector
	PeakSource PeakSource
	CPUTime    time.Duration
}

// CancelCommand ends a request that waits or a reservation, by id or by request id.
type CancelCommand struct {
	Actor     identity.Actor
	ID        ID
	RequestID string
	Reason    string
}

// RenewCommand extends a reservation or a lease.
type RenewCommand struct {
	Actor identity.Actor
	ID    ID
	TTL   time.Duration // zero: as first given
}

// ResizeCommand changes an entitlement. Dimensions that are unset stay.
type ResizeCommand struct {
	Actor    identity.Actor
	ID       ID
	Entitled resource.Resource
}

// StopCommand asks the host's agent to end the engine.
type StopCommand struct {
	Actor  identity.Actor
	ID     ID
	Grace  *time.Duration // nil: the default
	Reason string
	// Release says that the caller has released the engine, which its agent launched.
	Release bool
}

// Quota is a rule: the limit of all requests together that match the selector.
type Quota struct {
	Selector   label.Selector
	Limit      resource.Vector
	Guaranteed resource.Vector
	// External limits the use of the rule's accounts in queues of clusters, by address. See
	// externallimits.go.
	External []resource.External
	// GuaranteedExternal are the guarantees of the rule's accounts there, by address. See
	// shareabroad.go.
	GuaranteedExternal []resource.External
	Weight             int32 // zero is 1
	// Normalization rounds the requests that match; nil: none.
	Normalization *resource.Normalization
	// Source is where the rule came from, such as "api" or "file:/etc/bursar/quotas.yaml".
	Source string
}

// HostState says whether a host's agent reports.
type HostState uint8

// The states of a host.
const (
	Healthy   HostState = iota + 1
	Suspect             // missed reports: no new grants
	LostHost            // silent for so long that its allocations became lost
	Returning           // known from the store; it has not reported since the load
	// ExpectedHost is the state of a name that an operator has cordoned, and that no agent has
	// registered yet.
	ExpectedHost
)

func (s HostState) String() string {
	switch s {
	case Healthy:
		return "healthy"
	case Suspect:
		return "suspect"
	case LostHost:
		return "lost"
	case Returning:
		return "returning"
	case ExpectedHost:
		return "expected"
	default:
		return "unknown"
	}
}

// HostRecord is the part of a host that is stored.
type HostRecord struct {
	ID          string
	Address     string
	Labels      label.Set
	Cordoned    bool
	Draining    bool
	Lost        bool
	Capacity    resource.Vector
	Protected   resource.Vector
	Reason      string
	Registered  Instant
	Incarnation uint64
	BootID      string
	Version     string
	Revision    uint64
	// StopTime is when the engines of a draining host are stopped; zero: they end by themselves.
	StopTime Instant
	// MachineID and PIDNamespace are those of its agent; empty: not known.
	MachineID, PIDNamespace string
	// Token is the identity token that its agent got last, and TokenBefore the one that the agent
	// showed for it: the answer with Token may not have arrived. Empty: none.
	Token, TokenBefore TokenHash
	// CordonedUntil is when the cordon ends by itself; zero: it does not.
	CordonedUntil Instant
	// Expected says that an operator has given orders for the name before an agent has registered
	// it. There is no host yet.
	Expected bool
	// Left says that its agent has ended in order, and that none has registered the host since.
	Left bool
}

// HostInfo is a host with its account and measurements, for readers.
type HostInfo struct {
	HostRecord
	State       HostState
	Account     AccountInfo
	Sample      *Sample
	Headroom    *int64 // bytes; nil: unknown
	LastSync    Instant
	Unavailable string // why it gets no new grants; empty if it does
	Engines     resource.Vector
	// EnginesUnreclaimable is the part of their memory, in bytes, that the kernel cannot take back.
	EnginesUnreclaimable int64
	// Reservations is how many of the account's allocations are not confirmed yet.
	Reservations int
	// Stranger is another agent that lately reported for this host and was refused; empty: none.
	Stranger string
	// SameMachine are other hosts on the same machine that report too, at most mostSameMachine.
	SameMachine []string
	// Unaccepted are engines on their agent's word alone.
	Unaccepted int
	// Cut lists, in words, the parts of its announcement that go beyond its identity.
	Cut []string
}

// AccountInfo is an account's state, for readers.
type AccountInfo struct {
	Name        AccountName
	Limit       resource.Vector
	Protected   resource.Vector
	Used        resource.Vector
	Reserved    resource.Vector
	Others      resource.Vector
	Available   resource.Vector // in the dimensions of Limit, never below zero
	Allocations int
	Waiting     int
	OverLimit   bool
	// HeldFor is the request for which the account is held, until HeldUntil at the latest; zero: it
	// is not held. Kept is the free amount that the hold keeps from other requests.
	HeldFor   ID
	HeldUntil Instant
	Kept      resource.Vector
	// Of a queue, and of a user's part of one: see QueueDetails. UserPercent is of users' parts,
	// HeldBack of queues.
	NotEnforced, Estimated []string
	UserPercent            *float64
	HeldBack               HeldBack
	MayGrow                resource.Vector
}

// Remembered is a request id whose allocation has ended.
type Remembered struct {
	Caller, RequestID string
	RequestHash       uint64
	ID                ID
	Ended             Instant
}

// Snapshot is everything that a ledger is rebuilt from.
type Snapshot struct {
	Revision uint64
	LastID   ID
	// Time is the latest known time of the ledger. Zero: only the times in the rows are known.
	Time Instant
	// Latest is the latest known time of all, with those in the rows; zero: not known. From then to
	// now no coordinator led.
	Latest Instant
	// Outages is the text of the Outages that the store knows.
	Outages     string
	Allocations []Allocation // live ones
	Hosts       []HostRecord
	Quotas      []Quota // of every source
	Providers   []ProviderRecord
	Remembered  []Remembered
	// Recalling says that not all of Remembered are here: Recall brings the others.
	Recalling bool
	Refusals  []Refusal
	// SetAside are requests that made the ledger panic, each with the reason. A request that waits
	// is canceled without being decided. A request that is reserved does not wait again.
	SetAside map[ID]string
	// Filed has the rows of allocations and hosts, in place of Allocations and Hosts; nil: it has
	// not.
	Filed *Filed
}

// Live is the number of its live allocations.
func (s *Snapshot) Live() int {
	if s.Filed != nil {
		return s.Filed.Len()
	}
	return len(s.Allocations)
}

// Changes are the changes of a batch of commands, in order. A host, a rule or a provider is either
// among the changed or among the removed ones: its last change counts.
type Changes struct {
	// Revision after the batch.
	Revision uint64
	LastID   ID
	// Time is the ledger's time after the batch.
	Time Instant
	// Outages is the text of all Outages if they have changed; empty: they have not.
	Outages string
	// Transitions are the allocations after each transition. The last one of an id is its row.
	Transitions   []Allocation
	Hosts         []HostRecord
	HostsRemoved  []string
	Quotas        []Quota  // of every source except files
	QuotasRemoved []string // selectors in text form, of every source except files
	// Providers and ProvidersRemoved are those of every source except files.
	Providers        []ProviderRecord
	ProvidersRemoved []ClusterName
	// Launches and LaunchesRemoved are the rows of launches. Nobody but the leader reads them.
	Launches        []LaunchRow
	LaunchesRemoved []ID
	// Stamps, by revision, are of Transitions and Hosts; QuotaStamps, by selector, of Quotas and
	// QuotasRemoved; HostStamps, by id, of HostsRemoved. They are for watchers, and not stored.
	Stamps                  []RevisionStamp
	QuotaStamps, HostStamps map[string]Stamp
	// Refusals, and RefusalsRemoved by id, belong to the coordinator: the ledger leaves them
	// empty.
	Refusals        []Refusal
	RefusalsRemoved []string
}

// Verdict is the decision that a request would get now.
type Verdict uint8

// The verdicts of Explain.
const (
	Fits Verdict = iota + 1
	Waits
	Never
	Decided
)

// Explanation answers Explain.
type Explanation struct {
	Verdict    Verdict
	Shortfalls []Shortfall
	Accounts   []AccountInfo
	Filters    *HostFilters
	HostID     string
	Place      int // how many requests are ahead of it, see place.go; -1 if it does not wait
	BlockedBy  *AccountName
	Allocation *Allocation
	// Runners are, for a starved request that cannot be granted, those who stand in its way.
	Runners []Runners
}

// Violation is something that an invariant forbids.
type Violation struct {
	Invariant int
	Message   string
}
