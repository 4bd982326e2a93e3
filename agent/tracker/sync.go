package tracker

import (
	"time"

	"github.com/bursar/bursar/internal/discovery"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// BuildRegister returns the announcement of the host.
func (t *Tracker) BuildRegister() *bursarv1.RegisterRequest {
	return &bursarv1.RegisterRequest{
		HostId: t.host.ID, Address: t.host.Address, Labels: t.host.Labels,
		Capacity: t.host.Capacity, Protected: t.host.Protected,
		BootId: t.host.BootID, Incarnation: t.host.Incarnation, Version: t.host.Version,
		Epoch: t.epoch, Leadership: t.leadership,
		MachineId: t.host.MachineID, PidNamespace: t.host.PIDNamespace,
	}
}

// Registered processes the answer to a registration. A full Sync must follow. The error is an
// *EpochError.
func (t *Tracker) Registered(r *bursarv1.RegisterResponse) error {
	if t.refuses(r) {
		return &EpochError{Got: r.GetEpoch(), Have: t.epoch}
	}
	t.enter(r, r.GetStoreId())
	t.setInterval(r.GetInterval().AsDuration())
	t.registered, t.resized, t.resyncAfter = true, false, 0
	t.full, t.seen = true, 0
	return nil
}

// led is an answer that carries its leadership.
type led interface {
	GetEpoch() uint64
	GetLeadership() uint64
}

// refuses reports whether an answer must be ignored. This is so if it has an older epoch, or the
// same epoch of another leadership. In the second case a restored store has given out the epoch
// twice, and the coordinator learns that from the next report. An answer whose epoch is out of
// reach is refused too: it is not from a coordinator of this cluster, and if the tracker took it,
// it would refuse the answers of this cluster.
func (t *Tracker) refuses(r led) bool {
	other := r.GetLeadership() != t.leadership && r.GetLeadership() != 0 && t.leadership != 0
	return r.GetEpoch() < t.epoch || r.GetEpoch() == t.epoch && other || t.epoch != 0 && !discovery.Believable(r.GetEpoch(), t.epoch)
}

// enter stores the leadership of an answer. Revisions of an older one mean nothing in it.
func (t *Tracker) enter(r led, storeID string) {
	if r.GetEpoch() != t.epoch {
		t.unsaved.all = true
		t.epoch, t.leadership, t.seen = r.GetEpoch(), 0, 0
	}
	if number := r.GetLeadership(); number != 0 && number != t.leadership {
		t.unsaved.all = true
		t.leadership = number
	}
	if storeID != "" && storeID != t.storeID {
		t.unsaved.all = true
		t.storeID = storeID
	}
}

func (t *Tracker) setInterval(interval time.Duration) {
	if interval > 0 {
		t.interval = interval
	}
}

// Resync makes the agent register again and send a full report, because the coordinator does not
// know the host.
func (t *Tracker) Resync() { t.registered, t.full, t.seen, t.resyncAfter = false, true, 0, 0 }

// BuildSync returns the next heartbeat. If a heartbeat gets no answer, the next one repeats its
// content.
func (t *Tracker) BuildSync(now time.Time) *bursarv1.SyncRequest {
	t.sequence++
	t.urgent, t.refusing = false, false
	if t.lastFull.IsZero() || now.Sub(t.lastFull) >= fullEvery {
		t.full = true
	}
	r := &bursarv1.SyncRequest{
		HostId: t.host.ID, Incarnation: t.host.Incarnation, Sequence: t.sequence,
		Epoch: t.epoch, Leadership: t.leadership, BootId: t.host.BootID,
		LedgerSequence: t.seen, Sample: t.sample, Full: t.full, Digest: t.sums.digest, OtherClusters: t.others,
	}
	if t.resized {
		r.Capacity = t.host.Capacity
	}
	for _, e := range t.inOrder() {
		switch {
		case e.tracked():
			if report := t.report(e); report != nil {
				r.Engines = append(r.Engines, report)
			}
		case e.phase == ended:
			r.Ended = append(r.Ended, e.tombstone)
		case e.phase == vetoed:
			if e.sentIn == 0 {
				e.sentIn = t.sequence
			}
			r.Vetoes = append(r.Vetoes, &bursarv1.Veto{
				AllocationId: e.grant.GetId(), Revision: e.grant.GetRevision(), HeadroomBytes: e.refusal.Headroom, Reason: e.refusal.Reason,
			})
		}
	}
	return r
}

// report returns the engine's part of the next Sync; nil if there is nothing new.
func (t *Tracker) report(e *entry) *bursarv1.EngineReport {
	changed := e.pending || e.usage != nil && e.usage.differs(e.reported) || e.stopError != e.reportedStopError ||
		e.over.end != e.over.reported || e.noted || e.begun.news || e.memoryLimit != e.reportedMemoryLimit
	if !t.full && !changed {
		return nil
	}
	use := e.use()
	report := &bursarv1.EngineReport{
		AllocationId: e.grant.GetId(), MeasuredPeak: use.Peak, MeasuredPeakSource: use.Source, CpuTime: use.CPUTime, StopError: e.stopError,
		LeaderEnd: e.over.end, Incidents: e.incidents.messages(), OverUseRule: e.rule, MemoryLimitBytes: e.memoryLimit,
		Phase: e.begun.phase, PhaseReason: e.begun.reason, LogDirectory: e.begun.logDirectory,
	}
	if e.noted || e.begun.news {
		e.noted, e.begun.news, e.pending = false, false, true
	}
	if e.memoryLimit != e.reportedMemoryLimit {
		e.reportedMemoryLimit, e.pending = e.memoryLimit, true
	}
	if e.stopError != e.reportedStopError {
		e.reportedStopError, e.pending = e.stopError, true
	}
	if e.over.end != e.over.reported {
		e.over.reported, e.pending = e.over.end, true
	}
	if e.usage != nil {
		report.Measured, report.UnreclaimableBytes, report.OverUse = e.usage.measured(), e.usage.UnreclaimableBytes, overUses(e.usage.over)
		e.reported, e.pending = e.usage, true
	}
	if t.full {
		report.Grant = e.grant
	}
	return report
}
