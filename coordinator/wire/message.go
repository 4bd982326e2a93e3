package wire

import (
	"crypto/sha256"
	"encoding/hex"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/bursar/bursar/coordinator/ledger"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/proto/convert"
	"github.com/bursar/bursar/resource"
)

// This file converts the ledger's values to messages. The file of each service has the other
// direction.

// The ledger's states are numbered like the contract's.
const (
	_ = uint(bursarv1.AllocationState_ALLOCATION_STATE_LOST) - uint(ledger.Lost)
	_ = uint(ledger.Lost) - uint(bursarv1.AllocationState_ALLOCATION_STATE_LOST)
	_ = uint(bursarv1.OverUsePolicy_OVER_USE_POLICY_KILL) - uint(ledger.PolicyKill)
	_ = uint(bursarv1.IncidentKind_INCIDENT_KIND_LIMIT_NOT_HELD) - uint(ledger.IncidentLimitNotHeld)
	_ = uint(ledger.IncidentLimitNotHeld) - uint(bursarv1.IncidentKind_INCIDENT_KIND_LIMIT_NOT_HELD)
	_ = uint(ledger.PolicyKill) - uint(bursarv1.OverUsePolicy_OVER_USE_POLICY_KILL)
	_ = uint(bursarv1.LeaderEndPolicy_LEADER_END_POLICY_STOP) - uint(ledger.StopAtLeaderEnd)
	_ = uint(ledger.StopAtLeaderEnd) - uint(bursarv1.LeaderEndPolicy_LEADER_END_POLICY_STOP)
	_ = uint(bursarv1.HostState_HOST_STATE_EXPECTED) - uint(ledger.ExpectedHost)
	_ = uint(ledger.ExpectedHost) - uint(bursarv1.HostState_HOST_STATE_EXPECTED)
	_ = uint(bursarv1.AccountKind_ACCOUNT_KIND_QUEUE) - uint(ledger.QueueAccount)
	_ = uint(ledger.QueueAccount) - uint(bursarv1.AccountKind_ACCOUNT_KIND_QUEUE)
	_ = uint(bursarv1.SyncAction_SYNC_ACTION_SHUTDOWN) - uint(ledger.ActionShutdown)
	_ = uint(ledger.ActionShutdown) - uint(bursarv1.SyncAction_SYNC_ACTION_SHUTDOWN)
	_ = uint(bursarv1.ExplainResponse_VERDICT_DECIDED) - uint(ledger.Decided)
	_ = uint(ledger.Decided) - uint(bursarv1.ExplainResponse_VERDICT_DECIDED)
)

// allocationFrame holds a message and its times in one piece of memory.
type allocationFrame struct {
	bursarv1.Allocation
	times [5]timestamppb.Timestamp
}

// AllocationMessage converts an allocation. The message shares memory with the allocation.
func AllocationMessage(a *ledger.Allocation) *bursarv1.Allocation {
	f := &allocationFrame{}
	m := &f.Allocation
	m.Id = a.ID.String()
	m.RequestId = a.RequestID
	m.State = bursarv1.AllocationState(a.State)
	m.Labels = convert.LabelsToProto(a.Labels)
	m.Requested = convert.ResourceToProto(a.Requested)
	m.Entitled = convert.ResourceToProto(a.Entitled)
	if !a.Measured.IsUnset() {
		m.Measured = convert.VectorToProto(a.Measured)
	}
	m.HostId, m.HostAddress = a.HostID, a.HostAddress
	expires := a.Expires
	if a.State == ledger.Waiting {
		expires = a.WaitDeadline
	}
	m.CreateTime = putTime(&f.times[0], a.Created)
	m.ReserveTime = putTime(&f.times[1], a.Reserved)
	m.ConfirmTime = putTime(&f.times[2], a.Confirmed)
	m.EndTime = putTime(&f.times[3], a.Ended)
	m.ExpireTime = putTime(&f.times[4], expires)
	m.Reason = a.Reason
	m.Revision = a.Revision
	m.Caller = a.Caller
	m.Priority = a.Priority
	if a.Process != (ledger.Process{}) {
		m.Process = &bursarv1.Process{
			Pid: a.Process.PID, StartTime: a.Process.StartTime, Cgroup: a.Process.Cgroup, BootId: a.Process.BootID, Verified: a.Process.Verified,
			Launched: a.Process.Launched,
		}
	}
	m.Address = a.Address
	m.ApplicationIds = a.ApplicationIDs
	m.OverLimit = a.OverLimit
	m.Stopping = a.Stopping && a.Ended == 0 // the ledger keeps it, for the reason
	m.Releasing = a.Releasing && a.Ended == 0
	if a.Exit != nil && a.Ended != 0 { // before the end only a caller has reported it
		m.ExitStatus = exitMessage(a.Exit)
	}
	if a.Ended != 0 {
		m.ErrorOutput = a.ErrorOutput
	}
	m.LeaderEnd = leaderEndMessage(a.LeaderEnd)
	m.UnreclaimableBytes = a.Unreclaimable
	m.OverUse = overUseMessages(a.OverUse)
	m.Incidents = incidentMessages(a.Incidents())
	m.MeasuredPeak, m.MeasuredPeakSource = VectorMessage(a.Peak.Vector()), bursarv1.PeakSource(a.Peak.Source)
	m.CpuTime = cpuTimeMessage(a.CPUTime)
	m.StopError = a.StopError()
	m.MemoryLimitBytes = a.MemoryLimit.Bytes()
	m.Claimed = claimMessage(a.Claimed)
	m.ActingUser = a.ActingUser()
	startMessage(m, a.Start)
	return m
}

func claimMessage(c *ledger.Claim) *bursarv1.Claim {
	if c == nil {
		return nil
	}
	return &bursarv1.Claim{
		Labels: convert.LabelsToProto(c.Labels), Requested: convert.ResourceToProto(c.Requested), Entitled: convert.ResourceToProto(c.Entitled),
		Caller: c.Caller, RequestId: c.RequestID, ActingUser: c.ActingUser(),
	}
}

func overUseMessages(list []ledger.OverUse) (messages []*bursarv1.OverUse) {
	for i := range list {
		u := &list[i]
		messages = append(messages, &bursarv1.OverUse{
			Dimension: u.Dimension, Used: u.Used, Entitled: u.Entitled, Since: TimeMessage(u.Since),
			Policy: bursarv1.OverUsePolicy(u.Policy), StopTime: TimeMessage(u.StopTime),
		})
	}
	return messages
}

// putTime sets a timestamp; nil for the zero Instant.
func putTime(t *timestamppb.Timestamp, i ledger.Instant) *timestamppb.Timestamp {
	if i == 0 {
		return nil
	}
	t.Seconds = int64(i) / int64(time.Second)
	t.Nanos = int32(int64(i) % int64(time.Second))
	return t
}

// TimeMessage converts a time; nil for the zero Instant.
func TimeMessage(i ledger.Instant) *timestamppb.Timestamp {
	return putTime(&timestamppb.Timestamp{}, i)
}

// DurationMessage converts a duration.
func DurationMessage(d time.Duration) *durationpb.Duration { return durationpb.New(d) }

// VectorMessage converts a vector; nil if it is not set.
func VectorMessage(v resource.Vector) *bursarv1.Resource {
	if v.IsUnset() {
		return nil
	}
	return convert.VectorToProto(v)
}

func accountNameMessage(n ledger.AccountName) *bursarv1.AccountName {
	m := &bursarv1.AccountName{Kind: bursarv1.AccountKind(n.Kind), Labels: convert.LabelsToProto(n.Labels)}
	if at := n.External; at != nil {
		m.External = convert.PlaceToProto(*at)
	}
	return m
}

// AccountMessage converts an account with its amounts.
func AccountMessage(a *ledger.AccountInfo) *bursarv1.Account {
	m := &bursarv1.Account{
		Name:  accountNameMessage(a.Name),
		Limit: VectorMessage(a.Limit), Protected: VectorMessage(a.Protected),
		Used: VectorMessage(a.Used), Reserved: VectorMessage(a.Reserved),
		UsedByOthers: VectorMessage(a.Others), Available: VectorMessage(a.Available),
		Allocations: int64(a.Allocations), Waiting: int64(a.Waiting), OverLimit: a.OverLimit,
	}
	m.NotEnforced, m.Estimated, m.UserPercent = a.NotEnforced, a.Estimated, a.UserPercent
	m.MayGrow = VectorMessage(a.MayGrow)
	if held := a.HeldBack; held.Applications > 0 {
		m.HeldBack = &bursarv1.HeldBack{Applications: held.Applications, Reason: held.Reason}
	}
	if a.HeldFor != 0 {
		m.HeldFor, m.HeldUntil, m.Kept = a.HeldFor.String(), TimeMessage(a.HeldUntil), VectorMessage(a.Kept)
	}
	return m
}

// AccountMessages converts accounts, in their order.
func AccountMessages(list []ledger.AccountInfo) []*bursarv1.Account {
	messages := make([]*bursarv1.Account, 0, len(list))
	for i := range list {
		messages = append(messages, AccountMessage(&list[i]))
	}
	return messages
}

func shortfallMessages(list []ledger.Shortfall) []*bursarv1.Shortfall {
	messages := make([]*bursarv1.Shortfall, 0, len(list))
	for i := range list {
		s := &list[i]
		note := convert.NoteOfText(string(s.Note)) // the ledger's texts are the contract's
		messages = append(messages, &bursarv1.Shortfall{
			Account: accountNameMessage(s.Account), Dimension: s.Dimension,
			Requested: s.Requested, Available: s.Available, Limit: s.Limit,
			Note: convert.NoteText(note), NoteCode: note, Detail: s.Detail, Largest: s.Largest,
		})
	}
	return messages
}

func filtersMessage(f *ledger.HostFilters) *bursarv1.HostFilters {
	if f == nil {
		return nil
	}
	m := &bursarv1.HostFilters{
		Total: int64(f.Total), Labels: int64(f.Labels), Health: int64(f.Health), Measurement: int64(f.Measurement),
		Books: int64(f.Books), Headroom: int64(f.Headroom), Held: int64(f.Held), Fit: int64(f.Fit),
		Fleet: int64(f.Fleet), Unmet: f.Unmet,
	}
	for _, c := range f.Closed {
		m.Closed = append(m.Closed, &bursarv1.ClosedHosts{Note: convert.NoteOfText(string(c.Note)), Reason: c.Reason, Hosts: int64(c.Hosts)})
	}
	return m
}

// HostMessage converts a host with its account and its latest sample.
func HostMessage(h *ledger.HostInfo) *bursarv1.Host {
	return &bursarv1.Host{
		Id: h.ID, Address: h.Address, Labels: convert.LabelsToProto(h.Labels),
		State: bursarv1.HostState(h.State), Cordoned: h.Cordoned, Draining: h.Draining,
		Account: AccountMessage(&h.Account), Sample: sampleMessage(h.Sample), HeadroomBytes: h.Headroom,
		RegisterTime: TimeMessage(h.Registered), LastSyncTime: TimeMessage(h.LastSync),
		Version: h.Version, Revision: h.Revision, UnavailableReason: h.Unavailable,
		EnginesMeasured: VectorMessage(h.Engines), EnginesUnreclaimableBytes: h.EnginesUnreclaimable, Stranger: h.Stranger,
		Machine: machineText(&h.HostRecord), SameMachine: h.SameMachine, Reservations: int64(h.Reservations),
		Unaccepted: int64(h.Unaccepted), Cut: h.Cut,
		AgentEnded: h.Left, CordonedUntil: TimeMessage(h.CordonedUntil),
	}
}

// machineText identifies a machine since its last boot. It is a hash, because a machine id must not
// be exposed: see machine-id(5).
func machineText(r *ledger.HostRecord) string {
	if r.MachineID == "" || r.BootID == "" {
		return ""
	}
	sum := sha256.Sum256([]byte("bursar machine\n" + r.MachineID + "\n" + r.BootID))
	return hex.EncodeToString(sum[:8])
}

// HostRecordMessage converts a host for watchers: its stored record. It has no account amounts and
// measurements, which change without a transition.
func HostRecordMessage(r *ledger.HostRecord) *bursarv1.Host {
	m := &bursarv1.Host{
		Id: r.ID, Address: r.Address, Labels: convert.LabelsToProto(r.Labels),
		Cordoned: r.Cordoned, Draining: r.Draining,
		Account: &bursarv1.Account{
			Name:  &bursarv1.AccountName{Kind: bursarv1.AccountKind_ACCOUNT_KIND_HOST, Labels: map[string]string{"host": r.ID}},
			Limit: VectorMessage(r.Capacity), Protected: VectorMessage(r.Protected),
		},
		RegisterTime: TimeMessage(r.Registered), Version: r.Version, Revision: r.Revision, UnavailableReason: r.MutedReason(),
		Machine: machineText(r), AgentEnded: r.Left, CordonedUntil: TimeMessage(r.CordonedUntil),
	}
	switch {
	case r.Expected:
		m.State = bursarv1.HostState_HOST_STATE_EXPECTED
	case r.Lost:
		m.State = bursarv1.HostState_HOST_STATE_LOST
	}
	return m
}

func sampleMessage(s *ledger.Sample) *bursarv1.HostSample {
	if s == nil {
		return nil
	}
	safety := s.MemorySafety
	return &bursarv1.HostSample{
		SampleTime:       TimeMessage(s.Time),
		MemoryTotalBytes: s.MemoryTotal, MemoryAvailableBytes: s.MemoryAvailable, MemorySafetyBytes: &safety,
		CpuTotalMillis: s.CPUTotalMillis, CpuUsedMillis: s.CPUUsedMillis, Load1Millis: s.Load1Millis,
		MemorySomeAvg10: s.MemorySome10, MemoryFullAvg10: s.MemoryFull10, CpuSomeAvg10: s.CPUSome10,
		Pressure: s.Pressure, SwapUsedBytes: s.SwapUsed, Processes: s.Processes, Degraded: s.Degraded,
		SwapTotalBytes: s.SwapTotal, HugePagesTotalBytes: s.HugePagesTotal, HugePagesFreeBytes: s.HugePagesFree,
		OutOfMemoryKills: s.OutOfMemoryKills, Refusal: s.Refusal, Disks: diskMessages(s.Disks), Notes: s.Notes,
	}
}

func diskMessages(list []ledger.Disk) (messages []*bursarv1.DiskSample) {
	for i := range list {
		d := &list[i]
		messages = append(messages, &bursarv1.DiskSample{
			Path: d.Path, TotalBytes: d.Total, FreeBytes: d.Free, TotalInodes: d.TotalInodes, FreeInodes: d.FreeInodes, Short: d.Short,
		})
	}
	return messages
}

// QuotaMessage converts a rule.
func QuotaMessage(q *ledger.Quota) *bursarv1.Quota {
	m := &bursarv1.Quota{
		Selector: convert.LabelsToProto(q.Selector.Labels()),
		Limit:    convert.LimitToProto(q.Limit, q.External), Guaranteed: convert.LimitToProto(q.Guaranteed, q.GuaranteedExternal), Weight: q.Weight, Source: q.Source,
	}
	if q.Normalization != nil {
		m.Normalization = convert.NormalizationToProto(*q.Normalization)
	}
	return m
}
