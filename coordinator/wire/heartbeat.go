package wire

import (
	"crypto/sha256"
	"strings"
	"time"
	"unicode"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/bursar/bursar/coordinator/core"
	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/seal"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/proto/convert"
	"github.com/bursar/bursar/resource"
)

// NewRegistration converts a registration. The caller sets Done.
func NewRegistration(req *bursarv1.RegisterRequest) (*core.Registration, error) {
	r := &core.Registration{Seen: core.SeenEpoch{Epoch: req.GetEpoch(), Number: req.GetLeadership()}, Command: ledger.RegisterCommand{
		HostID: req.GetHostId(), Address: req.GetAddress(), BootID: req.GetBootId(),
		Incarnation: req.GetIncarnation(), Version: req.GetVersion(),
		MachineID: req.GetMachineId(), PIDNamespace: req.GetPidNamespace(), Uptime: DurationFrom(req.GetUptime()),
		Token: TokenHash(req.GetIdentityToken()),
	}}
	var err error
	if r.Command.Labels, err = convert.LabelsFromProto(req.GetLabels()); err != nil {
		return nil, err
	}
	if r.Command.Capacity, err = vectorFrom("capacity", req.GetCapacity()); err != nil {
		return nil, err
	}
	if r.Command.Protected, err = vectorFrom("protected", req.GetProtected()); err != nil {
		return nil, err
	}
	return r, nil
}

// TokenHash returns the hash of an identity token, which the ledger stores.
func TokenHash(token []byte) ledger.TokenHash {
	if len(token) == 0 {
		return ""
	}
	sum := sha256.Sum256(token)
	return ledger.TokenHash(sum[:])
}

// RegisterResponse returns the answer to a registration, with the agent's next identity token.
func RegisterResponse(r *core.Registration, token []byte) *bursarv1.RegisterResponse {
	return &bursarv1.RegisterResponse{
		Epoch: r.Result.Led.Epoch, Leadership: r.Result.Led.Number, StoreId: r.Result.StoreID, Interval: DurationMessage(r.Result.Interval),
		IdentityToken: token,
	}
}

func vectorFrom(field string, m *bursarv1.Resource) (resource.Vector, error) {
	v, err := convert.VectorFromProto(m)
	return v, InField(field+".", err)
}

// NewReport converts a heartbeat. The sealer verifies the seals of its grants. The caller sets
// Done.
func NewReport(req *bursarv1.SyncRequest, sealer seal.Sealer) (*core.Report, error) {
	command, err := syncFrom(req, sealer)
	if err != nil {
		return nil, err
	}
	return &core.Report{Seen: core.SeenEpoch{Epoch: req.GetEpoch(), Number: req.GetLeadership()}, Command: command}, nil
}

// SyncResponse returns the answer to a heartbeat, with sealed grants.
func SyncResponse(r *core.Report, sealer seal.Sealer) *bursarv1.SyncResponse {
	m := &bursarv1.SyncResponse{
		Epoch: r.Led.Epoch, Leadership: r.Led.Number, LedgerSequence: r.Result.Revision, Interval: DurationMessage(r.Result.Interval),
		Action: bursarv1.SyncAction(r.Result.Action), Complete: r.Result.Complete,
		Acknowledged: idTexts(r.Result.Acknowledged), Gone: idTexts(r.Result.Gone),
	}
	if r.ResyncAfter > 0 {
		m.ResyncAfter = DurationMessage(r.ResyncAfter)
	}
	for i := range r.Result.Grants {
		grant := AllocationMessage(&r.Result.Grants[i])
		// these come from the agent itself
		grant.Measured, grant.MeasuredPeak, grant.UnreclaimableBytes, grant.OverUse, grant.StopError, grant.MemoryLimitBytes = nil, nil, 0, nil, "", 0
		grant.Incidents = nil
		grant.MeasuredPeakSource, grant.CpuTime = bursarv1.PeakSource_PEAK_SOURCE_UNSPECIFIED, nil
		grant.Seal = sealer.Seal(&r.Result.Grants[i])
		m.Grants = append(m.Grants, grant)
	}
	for _, stop := range r.Result.Stops {
		m.Stops = append(m.Stops, &bursarv1.StopOrder{
			AllocationId: stop.ID.String(), Grace: DurationMessage(stop.Grace), Reason: stop.Reason,
		})
	}
	return m
}

func idTexts(ids []ledger.ID) []string {
	if len(ids) == 0 {
		return nil
	}
	texts := make([]string, len(ids))
	for i, id := range ids {
		texts[i] = id.String()
	}
	return texts
}

func syncFrom(req *bursarv1.SyncRequest, sealer seal.Sealer) (ledger.SyncCommand, error) {
	c := ledger.SyncCommand{
		HostID: req.GetHostId(), Incarnation: req.GetIncarnation(), Sequence: req.GetSequence(), BootID: req.GetBootId(),
		Seen: req.GetLedgerSequence(), Sample: sampleFrom(req.GetSample()), Full: req.GetFull(), Digest: req.GetDigest(), Leaving: req.GetLeaving(),
	}
	if req.GetCapacity() != nil {
		v, err := vectorFrom("capacity", req.GetCapacity())
		if err != nil {
			return c, err
		}
		c.Capacity = &v
	}
	c.Engines = make([]ledger.EngineReport, 0, len(req.GetEngines()))
	for _, m := range req.GetEngines() {
		engine, err := engineFrom(m)
		if err != nil {
			return c, err
		}
		if engine.Grant != nil {
			engine.Unvouched = engine.Grant.Claimed != nil || !sealer.Vouches(m.GetGrant().GetSeal(), c.HostID, engine.Grant)
		}
		c.Engines = append(c.Engines, engine)
	}
	for _, m := range req.GetEnded() {
		id, err := ParseID("ended.allocation_id", m.GetAllocationId())
		if err != nil {
			return c, err
		}
		end := ledger.EngineEnd{
			ID: id, Time: instantFrom(m.GetEndTime()), Reason: CleanText(m.GetReason()), Exit: ExitFrom(m.GetExitStatus()), ErrorOutput: CleanLines(m.GetErrorOutput()),
			LeaderEnd:  leaderEndFrom(m.GetLeaderEnd()),
			PeakSource: PeakSourceFrom(m.GetMeasuredPeakSource()), CPUTime: CPUTimeFrom(m.GetCpuTime()), NotBegun: m.GetNotBegun(),
			Phase: PhaseFrom(m.GetPhase()), PhaseReason: truncated(CleanText(m.GetPhaseReason()), longestProblem), LogDirectory: CleanText(m.GetLogDirectory()),
		}
		if end.Measured, err = vectorFrom("ended.measured", m.GetMeasured()); err != nil {
			return c, err
		}
		if end.Peak, err = vectorFrom("ended.measured_peak", m.GetMeasuredPeak()); err != nil {
			return c, err
		}
		end.Incidents = IncidentsFrom(m.GetIncidents())
		c.Ended = append(c.Ended, end)
	}
	for _, m := range req.GetVetoes() {
		id, err := ParseID("vetoes.allocation_id", m.GetAllocationId())
		if err != nil {
			return c, err
		}
		c.Vetoes = append(c.Vetoes, ledger.Veto{ID: id, Headroom: m.GetHeadroomBytes(), Revision: m.GetRevision(), Reason: truncated(CleanText(m.GetReason()), longestProblem)})
	}
	return c, nil
}

func engineFrom(m *bursarv1.EngineReport) (ledger.EngineReport, error) {
	id, err := ParseID("engines.allocation_id", m.GetAllocationId())
	if err != nil {
		return ledger.EngineReport{}, err
	}
	measured, err := vectorFrom("engines.measured", m.GetMeasured())
	if err != nil {
		return ledger.EngineReport{}, err
	}
	peak, err := vectorFrom("engines.measured_peak", m.GetMeasuredPeak())
	if err != nil {
		return ledger.EngineReport{}, err
	}
	engine := ledger.EngineReport{
		ID: id, Measured: measured, Peak: peak, Unreclaimable: m.GetUnreclaimableBytes(), OverUse: overUseFrom(m.GetOverUse()),
		StopError: truncated(CleanText(m.GetStopError()), longestProblem), LeaderEnd: leaderEndFrom(m.GetLeaderEnd()),
		Incidents: IncidentsFrom(m.GetIncidents()), Rule: overUseRuleFrom(m.GetOverUseRule()), MemoryLimit: ledger.PagesOf(m.GetMemoryLimitBytes()),
		PeakSource: PeakSourceFrom(m.GetMeasuredPeakSource()), CPUTime: CPUTimeFrom(m.GetCpuTime()),
		Phase: PhaseFrom(m.GetPhase()), PhaseReason: truncated(CleanText(m.GetPhaseReason()), longestProblem),
		LogDirectory: CleanText(m.GetLogDirectory()),
	}
	if m.GetGrant() != nil {
		engine.Grant, engine.Without = grantFrom(id, m.GetGrant())
	}
	return engine, nil
}

// overUseFrom converts an agent's report of over-use. It omits entries that this version does not
// know, such as a dimension or a policy of a later version: the rest of the heartbeat counts for
// more.
func overUseFrom(messages []*bursarv1.OverUse) (list []ledger.OverUse) {
	for _, m := range messages {
		policy := m.GetPolicy()
		if m.GetDimension() != resource.Memory && m.GetDimension() != resource.CPU ||
			policy < bursarv1.OverUsePolicy_OVER_USE_POLICY_OBSERVE || policy > bursarv1.OverUsePolicy_OVER_USE_POLICY_KILL {
			continue
		}
		u := ledger.OverUse{
			Dimension: m.GetDimension(), Used: m.GetUsed(), Entitled: m.GetEntitled(), Since: instantFrom(m.GetSince()),
			Policy: ledger.OverUsePolicy(policy),
		}
		if policy == bursarv1.OverUsePolicy_OVER_USE_POLICY_KILL {
			u.StopTime = instantFrom(m.GetStopTime())
		}
		list = append(list, u)
	}
	return list
}

// overUseRuleFrom converts a host's rule for over-use. A policy of a later version is unknown.
func overUseRuleFrom(m *bursarv1.OverUseRule) ledger.OverUseRule {
	const most = 1 << 20 // thousandths, or seconds: more than any configuration allows
	policy := m.GetPolicy()
	if policy < bursarv1.OverUsePolicy_OVER_USE_POLICY_OBSERVE || policy > bursarv1.OverUsePolicy_OVER_USE_POLICY_KILL {
		return ledger.OverUseRule{}
	}
	return ledger.OverUseRule{
		Policy: ledger.OverUsePolicy(policy), Tolerance: min(max(0, m.GetTolerance()), most),
		Grace: int32(min(max(0, m.GetGrace().GetSeconds()), most)),
	}
}

// instantFrom converts a time of the wire. An invalid time, or one outside the years of the
// ledger's time, counts as unset.
func instantFrom(t *timestamppb.Timestamp) ledger.Instant {
	if !t.IsValid() || t.GetSeconds() < 0 || t.GetSeconds() > int64(ledger.MaxInstant)/int64(time.Second) {
		return 0
	}
	return ledger.Instant(t.GetSeconds()*int64(time.Second) + int64(t.GetNanos()))
}

func sampleFrom(m *bursarv1.HostSample) *ledger.Sample {
	if m == nil {
		return nil
	}
	return &ledger.Sample{
		Time: instantFrom(m.GetSampleTime()), MemoryTotal: m.MemoryTotalBytes, MemoryAvailable: m.MemoryAvailableBytes,
		MemorySafety: m.GetMemorySafetyBytes(), CPUTotalMillis: m.CpuTotalMillis, CPUUsedMillis: m.CpuUsedMillis,
		Load1Millis: m.Load1Millis, MemorySome10: m.MemorySomeAvg10, MemoryFull10: m.MemoryFullAvg10, CPUSome10: m.CpuSomeAvg10,
		Pressure: m.GetPressure(), SwapUsed: m.SwapUsedBytes, Processes: m.GetProcesses(), Degraded: degradedFrom(m.GetDegraded()),
		SwapTotal: m.SwapTotalBytes, HugePagesTotal: m.HugePagesTotalBytes, HugePagesFree: m.HugePagesFreeBytes,
		OutOfMemoryKills: m.OutOfMemoryKills, Refusal: CleanText(m.GetRefusal()), Disks: disksFrom(m.GetDisks()), Notes: notesFrom(m.GetNotes()),
	}
}

func degradedFrom(sources map[string]string) map[string]string {
	if len(sources) == 0 {
		return nil
	}
	list := make(map[string]string, len(sources))
	for source, why := range sources {
		list[truncated(source, longestDegraded)] = truncated(why, longestDegraded)
	}
	return list
}

func notesFrom(texts []string) (notes []string) {
	for _, text := range texts {
		notes = append(notes, CleanText(text))
	}
	return notes
}

func disksFrom(messages []*bursarv1.DiskSample) (list []ledger.Disk) {
	for _, m := range messages {
		list = append(list, ledger.Disk{
			Path: CleanText(m.GetPath()), Total: m.GetTotalBytes(), Free: m.GetFreeBytes(),
			TotalInodes: m.GetTotalInodes(), FreeInodes: m.GetFreeInodes(), Short: m.GetShort(),
		})
	}
	return list
}

// CleanText makes a text of an agent or a user fit for display: one line, without control
// characters. A text that is not empty stays so.
func CleanText(text string) string {
	clean := strings.TrimSpace(strings.ReplaceAll(CleanLines(text), "\n", " "))
	if clean == "" && text != "" {
		return "(no words)"
	}
	return clean
}

// CleanLines removes control characters other than line breaks from a text.
func CleanLines(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' {
			return ' '
		}
		return r
	}, text)
}
