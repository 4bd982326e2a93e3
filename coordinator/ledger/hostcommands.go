package ledger

import (
	"time"

	"github.com/bursar/bursar/label"
	"github.com/bursar/bursar/resource"
)

// RegisterCommand announces a host.
type RegisterCommand struct {
	HostID      string
	Address     string
	Labels      label.Set
	Capacity    resource.Vector
	Protected   resource.Vector
	BootID      string
	Incarnation uint64
	Version     string
	// MachineID and PIDNamespace identify, with BootID, the host's agent; empty: not known,
	// such as from an older agent.
	MachineID, PIDNamespace string
	// Uptime is how long ago its machine was booted; 0: not known, or just now.
	Uptime time.Duration
	// Token is the identity token that the agent shows; empty: none. NextToken is the one that it
	// gets if it is registered; empty: it keeps its own.
	Token, NextToken TokenHash
	// CutLabels and CutCapacity list, in words, the excess over the bounds of the agent's identity.
	CutLabels, CutCapacity []string
}

// Sample is a measurement of a host. A nil field could not be read.
type Sample struct {
	Time            Instant // by the agent's clock, for display
	MemoryTotal     *int64
	MemoryAvailable *int64
	MemorySafety    int64
	CPUTotalMillis  *int64
	CPUUsedMillis   *int64
	Load1Millis     *int64
	MemorySome10    *int32 // hundredths of a percent
	MemoryFull10    *int32
	CPUSome10       *int32
	Pressure        bool
	SwapUsed        *int64
	SwapTotal       *int64
	HugePagesTotal  *int64 // bytes reserved for them, not part of MemoryTotal
	HugePagesFree   *int64
	Processes       int32
	// OutOfMemoryKills is how many processes the kernel has ended since the boot because memory
	// was short.
	OutOfMemoryKills *int64
	// Refusal is why the agent wants no new grants, other than pressure; empty: it accepts them.
	Refusal  string
	Disks    []Disk
	Degraded map[string]string
	// Notes are further remarks on the host for an operator, a sentence each.
	Notes []string
}

// Disk is the file system of a work directory of a host.
type Disk struct {
	Path                    string
	Total, Free             int64 // bytes; Free is what ordinary users can still write
	TotalInodes, FreeInodes int64 // both 0 if it does not count them
	Short                   bool  // less is free than the agent's configuration requires
}

// EngineReport is an agent's report of one engine.
type EngineReport struct {
	ID            ID
	Measured      resource.Vector
	Unreclaimable int64
	Peak          resource.Vector // the most that its agent has measured; unset: not known
	PeakSource    PeakSource
	CPUTime       time.Duration // all that it has used; 0: not known
	StopError     string        // why it could not be stopped; empty: nothing went wrong
	LeaderEnd     *LeaderEnd    // nil: its main process runs, or the agent does not know
	MemoryLimit   Pages         // that the kernel holds it to; 0: none
	OverUse       []OverUse     // all of it; one dimension each
	Incidents     []Incident    // all so far
	Rule          OverUseRule   // what is done about over-use
	Grant         *Allocation   // the agent's record, in a full report
	// Phase is how far the engine is, and PhaseReason why it failed; PhaseUnknown: the agent does
	// not watch it.
	Phase       Phase
	PhaseReason string
	// LogDirectory is where the output of an engine goes that the agent has launched, once it
	// may have run. Empty: it has not, or its caller started it.
	LogDirectory string
	// Unvouched says that no seal of the store's coordinators vouches for Grant: it is the agent's
	// word alone.
	Unvouched bool
	// Without names the parts of that record that were left out because they are damaged or too
	// large; empty: none.
	Without string
}

// EngineEnd is the tombstone of an engine.
type EngineEnd struct {
	ID     ID
	Time   Instant
	Reason string
	Exit   *ExitStatus // of its main process
	// LeaderEnd is set if its main process had ended before the last one.
	LeaderEnd *LeaderEnd

	ErrorOutput    string          // what the engine wrote last to its standard error
	Measured, Peak resource.Vector // the last measurement, and the most; unset: not known
	Incidents      []Incident      // all so far
	PeakSource     PeakSource
	CPUTime        time.Duration // 0: not known
	NotBegun       bool          // nothing of it was executed

	// Phase, PhaseReason and LogDirectory are as in an EngineReport.
	Phase                     Phase
	PhaseReason, LogDirectory string
}

// Veto is an agent's refusal of a grant.
type Veto struct {
	ID       ID
	Headroom int64  // bytes it had left
	Reason   string // empty: the memory is not there
	// Revision is the allocation's revision that the agent got. A veto does not apply to a later
	// grant.
	Revision uint64
}

// SyncCommand is one heartbeat.
type SyncCommand struct {
	HostID      string
	Incarnation uint64
	Sequence    uint64
	BootID      string
	Seen        uint64 // the ledger revision of the last answer the agent got
	Sample      *Sample
	Engines     []EngineReport
	Full        bool
	Digest      uint64
	Ended       []EngineEnd
	Vetoes      []Veto
	Capacity    *resource.Vector
	// CutCapacity lists, in words, the excess of Capacity over the bounds of the agent's identity.
	CutCapacity []string
	Leaving     bool // the agent ends in order
}

// Action is an agent's task apart from its grants.
type Action uint8

// The actions of a SyncResult.
const (
	ActionNone Action = iota
	ActionResync
	ActionDrain
	ActionShutdown
)

// StopOrder asks an agent to end an engine.
type StopOrder struct {
	ID     ID
	Grace  time.Duration
	Reason string
}

// SyncResult answers a heartbeat.
type SyncResult struct {
	Revision     uint64
	Grants       []Allocation
	Complete     bool // Grants has all allocations that live on the host
	Gone         []ID
	Stops        []StopOrder
	Interval     time.Duration
	Action       Action
	Acknowledged []ID
	NotTaken     NotTaken
	// Over are the allocations that ended because the agent has said that their engines do not run.
	Over []ID
	// Unvouched is how many engines were adopted from the report on their agent's word alone.
	Unvouched int
}

// NotTaken are engines in a report that the ledger did not adopt, because their allocations are on
// another host, or were other requests.
type NotTaken struct {
	Count int
	// First is the first of them as the ledger has it: only its id if it has ended, the zero
	// Allocation if Count is 0.
	First Allocation
}
