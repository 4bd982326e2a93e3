package store

import (
	"errors"
	"fmt"
	"math"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/label"
	storev1 "github.com/bursar/bursar/proto/bursar/store/v1"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/proto/convert"
	"github.com/bursar/bursar/resource"
)

// DecodeAllocation reads a payload of AppendAllocation. forget is the row's column. The error is a
// *RowError.
func DecodeAllocation(id ledger.ID, forget bool, payload []byte) (ledger.Allocation, error) {
	record := &storev1.AllocationRecord{}
	err := unmarshal(payload, record)
	if err == nil {
		var a ledger.Allocation
		if a, err = allocation(id, record); err == nil {
			a.Forget = forget
			return a, nil
		}
	}
	return ledger.Allocation{}, &RowError{AllocationTable, id.String(), err}
}

func allocation(id ledger.ID, record *storev1.AllocationRecord) (ledger.Allocation, error) {
	m := record.GetAllocation()
	if m == nil {
		return ledger.Allocation{}, errors.New("allocation: want it to be set")
	}
	if text := id.String(); m.GetId() != text {
		return ledger.Allocation{}, fmt.Errorf("id: %q: want that of the row", m.GetId())
	}
	if bursarv1.AllocationState_name[int32(m.GetState())] == "" || m.GetState() == bursarv1.AllocationState_ALLOCATION_STATE_UNSPECIFIED {
		return ledger.Allocation{}, fmt.Errorf("state: %d: want one that this version knows", m.GetState())
	}
	if err := known(m); err != nil {
		return ledger.Allocation{}, err
	}
	var r reader
	a := ledger.Allocation{
		ID: id, RequestID: m.GetRequestId(), Caller: m.GetCaller(), RequestHash: record.GetRequestHash(),
		State:  ledger.State(m.GetState()), //nolint:gosec // checked above to be small
		HostID: m.GetHostId(), HostAddress: m.GetHostAddress(), Priority: m.GetPriority(),
		Labels:  r.labels("labels", m.GetLabels()),
		Created: r.instant("create_time", m.CreateTime), Reserved: r.instant("reserve_time", m.ReserveTime),
		Confirmed: r.instant("confirm_time", m.ConfirmTime), Ended: r.instant("end_time", m.EndTime),
		Expires:        r.instant("expire_time", m.ExpireTime),
		WaitDeadline:   r.instant("wait_deadline", record.WaitDeadline),
		PassedSince:    r.instant("passed_since", record.PassedSince),
		ReservationTTL: r.duration("reservation_ttl", record.ReservationTtl),
		Lease:          r.duration("lease", record.Lease),
		StopGrace:      r.duration("stop_grace", record.StopGrace),
		Async:          record.GetAsync(), OverLimit: m.GetOverLimit(), Stopping: m.GetStopping(),
		Reason: m.GetReason(), StopReason: record.GetStopReason(),
		Address: m.GetAddress(), ApplicationIDs: m.GetApplicationIds(),
		Revision: m.GetRevision(), GrantRevision: record.GetGrantRevision(),
	}
	var err error
	if a.Requested, err = convert.ResourceFromProto(m.Requested); err != nil {
		r.fail("requested", err)
	}
	if a.Entitled, err = convert.ResourceFromProto(m.Entitled); err != nil {
		r.fail("entitled", err)
	}
	more := r.additions("requested", m.Requested)
	a.ErrorOutput, a.MemoryLimit = more.GetErrorOutput(), ledger.PagesOf(more.GetMemoryLimitBytes())
	a.Releasing = more.GetReleasing()
	a.Subordinate = ledger.IsSubordinate(a.Caller, more.GetActingUser())
	if c := more.GetClaimed(); c != nil {
		a.Claimed = r.claim(c)
	}
	if !a.State.Live() {
		a.Measured, a.Unreclaimable, a.CPUTime = r.vector("measured", more.GetMeasured()), more.GetUnreclaimableBytes(), r.duration("cpu_time", more.GetCpuTime())
		a.Peak = ledger.NewPeak(r.vector("measured_peak", more.GetMeasuredPeak()), ledger.PeakSourceOf(int32(more.GetMeasuredPeakSource())))
	}
	if p := m.GetProcess(); p != nil {
		a.Process = ledger.Process{PID: p.GetPid(), StartTime: p.GetStartTime(), Cgroup: p.GetCgroup(), BootID: p.GetBootId(), Verified: p.GetVerified(), Launched: more.GetLaunched()}
	}
	a.Exit = exitStatus(m.GetExitStatus())
	if end := more.GetLeaderEnd(); end != nil {
		a.LeaderEnd = &ledger.LeaderEnd{
			Time: r.instant("leader_end.time", end.GetTime()), Exit: exitStatus(end.GetExitStatus()),
			Policy: ledger.LeaderEndPolicy(end.GetPolicy()), //nolint:gosec // three policies
		}
	}
	for _, u := range m.GetOverUse() {
		a.OverUse = append(a.OverUse, r.overUse(u))
	}
	var incidents []ledger.Incident
	for _, i := range more.GetIncidents() {
		if bursarv1.IncidentKind_name[int32(i.GetKind())] != "" { // otherwise of a later version
			incidents = append(incidents, r.incident(i))
		}
	}
	if more.GetStopError() != "" || len(incidents) > 0 {
		a.Notes = &ledger.Notes{StopError: more.GetStopError(), Incidents: incidents}
	}
	a.Start = r.start(more)
	if w := record.GetWishes(); w != nil {
		a.Wishes = &ledger.Wishes{
			Host: w.GetId(), Required: r.labels("wishes.required_labels", w.GetRequiredLabels()),
			Preferred: r.labels("wishes.preferred_labels", w.GetPreferredLabels()), Avoid: w.GetAvoid(),
			Rules: r.rules(w),
		}
	}
	return a, r.err
}

// start reads the additions of an engine's start; nil if there are none.
func (r *reader) start(more *storev1.Additions) *ledger.Start {
	if more.GetName() == "" && more.GetPhase() == 0 && more.GetLaunch() == nil {
		return nil
	}
	s := &ledger.Start{
		Name: more.GetName(), Phase: ledger.Phase(more.GetPhase()), PhaseSince: r.instant("phase_time", more.GetPhaseTime()), PhaseReason: more.GetPhaseReason(), //nolint:gosec // four phases
	}
	if !s.Phase.Known() { // of a later version
		s.Phase = ledger.PhaseUnknown
	}
	if launch := more.GetLaunch(); launch != nil {
		s.Launch = &ledger.Launch{
			Account: launch.GetAccount(), Program: launch.GetProgram(), LogDirectory: launch.GetLogDirectory(), Retries: launch.GetRetries(),
			Row: ledger.ID(more.GetLaunchRow()), RowBytes: int32(max(0, min(more.GetLaunchRowBytes(), math.MaxInt32))), Watched: more.GetWatched(),
		}
		if id := launch.GetSuccessorId(); id != "" {
			var err error
			if s.Launch.Successor, err = ledger.ParseID(id); err != nil {
				r.fail("launch.successor_id", err)
			}
		}
		for _, t := range launch.GetTries() {
			try := ledger.Try{
				HostID: t.GetHostId(), At: r.instant("launch.tries.time", t.GetTime()), Reason: t.GetReason(), Executed: t.GetExecuted(), ErrorOutput: t.GetErrorOutput(),
				Fault: ledger.Fault(t.GetFault()), //nolint:gosec // three faults
			}
			if !try.Fault.Known() { // of a later version
				try.Fault = ledger.FaultUnknown
			}
			s.Launch.Tries = append(s.Launch.Tries, try)
		}
	}
	return s
}

func exitStatus(m *bursarv1.ExitStatus) *ledger.ExitStatus {
	if m == nil {
		return nil
	}
	return &ledger.ExitStatus{Code: m.Code, Signal: m.GetSignal(), OutOfMemory: m.GetOutOfMemory()}
}

// DecodeHost reads a payload of EncodeHost. The error is a *RowError.
func DecodeHost(id string, payload []byte) (ledger.HostRecord, error) {
	m := &storev1.HostRecord{}
	err := unmarshal(payload, m)
	if err == nil && m.GetId() != id {
		err = fmt.Errorf("id: %q: want that of the row", m.GetId())
	}
	if err != nil {
		return ledger.HostRecord{}, &RowError{HostTable, id, err}
	}
	var r reader
	h := ledger.HostRecord{
		ID: id, Address: m.GetAddress(), Labels: r.labels("labels", m.GetLabels()),
		Cordoned: m.GetCordoned(), Draining: m.GetDraining(), Lost: m.GetLost(), Reason: m.GetReason(),
		Registered:  r.instant("register_time", m.RegisterTime),
		Incarnation: m.GetIncarnation(), BootID: m.GetBootId(), Version: m.GetVersion(), Revision: m.GetRevision(),
		StopTime: r.instant("stop_time", m.StopTime),
	}
	more := r.additions("capacity", m.Capacity)
	h.MachineID, h.PIDNamespace, h.Left, h.Expected = more.GetMachineId(), more.GetPidNamespace(), more.GetLeft(), more.GetExpected()
	h.CordonedUntil = r.instant("cordoned_until", more.GetCordonedUntil())
	h.Token, h.TokenBefore = ledger.TokenHash(more.GetIdentityToken()), ledger.TokenHash(more.GetIdentityTokenBefore())
	if h.Capacity, err = convert.VectorFromProto(m.Capacity); err != nil {
		r.fail("capacity", err)
	}
	if h.Protected, err = convert.VectorFromProto(m.Protected); err != nil {
		r.fail("protected", err)
	}
	if r.err != nil {
		return ledger.HostRecord{}, &RowError{HostTable, id, r.err}
	}
	return h, nil
}

// DecodeQuota reads a payload of EncodeQuota. selector is the row's key, a selector's text. The
// error is a *RowError.
func DecodeQuota(selector string, payload []byte) (ledger.Quota, error) {
	record := &storev1.QuotaRecord{}
	err := unmarshal(payload, record)
	var q ledger.Quota
	if err == nil {
		q, err = quota(record.GetQuota())
	}
	if err == nil && q.Selector.String() != selector {
		err = fmt.Errorf("selector: %q: want that of the row", q.Selector)
	}
	if err != nil {
		return ledger.Quota{}, &RowError{QuotaTable, selector, err}
	}
	return q, nil
}

// DecodeProvider reads a payload of EncodeProvider. name is the row's key. The error is a
// *RowError.
func DecodeProvider(name string, payload []byte) (ledger.ProviderRecord, error) {
	record := &storev1.ProviderRecord{}
	err := unmarshal(payload, record)
	m := record.GetProvider()
	if err == nil && m == nil {
		err = errors.New("provider: want it to be set")
	}
	if err == nil {
		err = known(m)
	}
	p := ledger.ProviderRecord{
		ClusterName: ledger.ClusterName{Kind: m.GetKind(), Cluster: m.GetCluster()},
		Default:     m.GetDefault(), Settings: m.GetSettings(), Source: m.GetSource(),
	}
	if err == nil && p.String() != name {
		err = fmt.Errorf("kind and cluster: %q: want those of the row", p.String())
	}
	if err != nil {
		return ledger.ProviderRecord{}, &RowError{ProviderTable, name, err}
	}
	return p, nil
}

func quota(m *bursarv1.Quota) (ledger.Quota, error) {
	if m == nil {
		return ledger.Quota{}, errors.New("quota: want it to be set")
	}
	q := ledger.Quota{Weight: m.GetWeight(), Source: m.GetSource()}
	var err error
	if q.Selector, err = label.NewSelector(m.GetSelector()); err != nil {
		return q, fmt.Errorf("selector: %w", err)
	}
	if q.Limit, q.External, err = convert.LimitFromProto(m.GetLimit()); err != nil {
		return q, fmt.Errorf("limit: %w", err)
	}
	if q.Guaranteed, q.GuaranteedExternal, err = convert.LimitFromProto(m.GetGuaranteed()); err != nil {
		return q, fmt.Errorf("guaranteed: %w", err)
	}
	if m.GetNormalization() != nil {
		n, err := convert.NormalizationFromProto(m.GetNormalization())
		if err != nil {
			return q, fmt.Errorf("normalization: %w", err)
		}
		q.Normalization = &n
	}
	return q, nil
}

// unmarshal reads a payload and refuses unknown fields: to write the row again would lose them.
func unmarshal(payload []byte, m proto.Message) error {
	if err := proto.Unmarshal(payload, m); err != nil {
		return fmt.Errorf("not a %s: %w", m.ProtoReflect().Descriptor().Name(), err)
	}
	return known(m)
}

// known refuses fields that this version does not know.
func known(m protoreflect.ProtoMessage) error {
	if unknown := m.ProtoReflect().GetUnknown(); len(unknown) > 0 {
		return fmt.Errorf("%d bytes in fields that this version does not know", len(unknown))
	}
	return nil
}

// reader reads fields and keeps the first error.
type reader struct{ err error }

// additions reads the unknown fields of a row's resource; see storev1.Additions. It ignores fields
// of a later version, as the previous version ignores all of them.
func (r *reader) additions(field string, m *bursarv1.Resource) *storev1.Additions {
	more := &storev1.Additions{}
	if m == nil {
		return more
	}
	if err := proto.Unmarshal(m.ProtoReflect().GetUnknown(), more); err != nil {
		r.fail(field, err)
	}
	return more
}

func (r *reader) claim(m *bursarv1.Claim) *ledger.Claim {
	c := &ledger.Claim{Caller: m.GetCaller(), RequestID: m.GetRequestId(), Labels: r.labels("claimed.labels", m.GetLabels())}
	c.Subordinate = ledger.IsSubordinate(c.Caller, m.GetActingUser())
	var err error
	if c.Requested, err = convert.ResourceFromProto(m.GetRequested()); err != nil {
		r.fail("claimed.requested", err)
	}
	if c.Entitled, err = convert.ResourceFromProto(m.GetEntitled()); err != nil {
		r.fail("claimed.entitled", err)
	}
	return c
}

func (r *reader) fail(field string, err error) {
	if r.err == nil {
		r.err = fmt.Errorf("%s: %w", field, err)
	}
}

func (r *reader) labels(field string, m map[string]string) label.Set {
	set, err := convert.LabelsFromProto(m)
	if err != nil {
		r.fail(field, err)
	}
	return set
}

// rules reads the conditions on the labels of a host; nil if there are none.
func (r *reader) rules(w *bursarv1.HostWishes) *ledger.Rules {
	rules := &ledger.Rules{}
	for _, list := range []struct {
		field string
		texts []string
		into  *[]label.Rule
	}{
		{"wishes.required_rules", w.GetRequiredRules(), &rules.Required},
		{"wishes.preferred_rules", w.GetPreferredRules(), &rules.Preferred},
		{"wishes.avoided_rules", w.GetAvoidedRules(), &rules.Avoided},
	} {
		var err error
		if *list.into, err = convert.RulesFromProto(list.texts); err != nil {
			r.fail(list.field, err)
		}
	}
	if len(rules.Required)+len(rules.Preferred)+len(rules.Avoided) == 0 {
		return nil
	}
	return rules
}

func (r *reader) vector(field string, m *bursarv1.Resource) resource.Vector {
	v, err := convert.VectorFromProto(m)
	if err != nil {
		r.fail(field, err)
	}
	return v
}

func (r *reader) overUse(m *bursarv1.OverUse) ledger.OverUse {
	if policy := m.GetPolicy(); bursarv1.OverUsePolicy_name[int32(policy)] == "" {
		r.fail("over_use.policy", fmt.Errorf("%d: want one that this version knows", policy))
	}
	return ledger.OverUse{
		Dimension: m.GetDimension(), Used: m.GetUsed(), Entitled: m.GetEntitled(),
		Policy: ledger.OverUsePolicy(m.GetPolicy()), //nolint:gosec // checked above to be small
		Since:  r.instant("over_use.since", m.Since), StopTime: r.instant("over_use.stop_time", m.StopTime),
	}
}

func (r *reader) incident(m *bursarv1.Incident) ledger.Incident {
	return ledger.Incident{
		Kind: ledger.IncidentKind(m.GetKind()), Dimension: m.GetDimension(), Count: m.GetCount(), //nolint:gosec // the caller has checked it
		First: r.instant("incidents.first_time", m.FirstTime), Last: r.instant("incidents.last_time", m.LastTime),
		MostUsed: m.GetMostUsed(), Bound: m.GetBound(), Ongoing: m.GetOngoing(),
	}
}

// instant reads only times that timestamp wrote: an Instant is between 1677 and 2262.
func (r *reader) instant(field string, m *timestamppb.Timestamp) ledger.Instant {
	if m == nil {
		return 0
	}
	// this may wrap; then the way back gives another time
	i := ledger.Instant(m.GetSeconds()*int64(time.Second) + int64(m.GetNanos()))
	if back := i.Time(); back.Unix() != m.GetSeconds() || int32(back.Nanosecond()) != m.GetNanos() { //nolint:gosec // below 1e9
		r.fail(field, fmt.Errorf("%d s and %d ns: want a time from 1678 to 2261", m.GetSeconds(), m.GetNanos()))
	}
	return i
}

// duration reads a duration of the encoder.
func (r *reader) duration(field string, m *durationpb.Duration) time.Duration {
	if m == nil {
		return 0
	}
	d := time.Duration(m.GetSeconds()*int64(time.Second) + int64(m.GetNanos())) // as above
	if int64(d/time.Second) != m.GetSeconds() || int32(d%time.Second) != m.GetNanos() {
		r.fail(field, fmt.Errorf("%d s and %d ns: want at most 292 years", m.GetSeconds(), m.GetNanos()))
	}
	return d
}
