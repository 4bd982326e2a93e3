package tracker

import (
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// begun is the start of an engine that this agent has launched.
type begun struct {
	// logDirectory is the directory of its output; empty if the engine has not run yet.
	logDirectory string
	// phase is its phase, if this agent watches its readiness. For later phases than starting, at
	// is when it reached the phase, and reason why it failed.
	phase  bursarv1.Phase
	at     time.Time
	reason string
	// news: no Sync has reported some of this yet.
	news bool
}

// SetBegun notes that an engine may have run, and the directory of its output. If the agent watches
// its readiness, the phase is starting, unless its record says that it was ready or has failed.
func (t *Tracker) SetBegun(id, logDirectory string, watched bool) {
	e := t.entries[id]
	if e == nil || !e.tracked() {
		return
	}
	if e.begun.logDirectory != logDirectory {
		e.begun.logDirectory, e.begun.news = logDirectory, true // order answers say it sooner
	}
	if !watched || e.begun.phase != bursarv1.Phase_PHASE_UNSPECIFIED {
		return
	}
	phase, reason, at := bursarv1.Phase_PHASE_STARTING, "", time.Time{}
	if isResult(e.grant.GetPhase()) {
		phase, reason, at = e.grant.GetPhase(), e.grant.GetPhaseReason(), e.grant.GetPhaseTime().AsTime()
	}
	e.begun.phase, e.begun.reason, e.begun.at, e.begun.news = phase, reason, at, true
}

// SetPhase notes that a starting engine is ready, or has failed.
func (t *Tracker) SetPhase(id string, phase bursarv1.Phase, reason string, at time.Time) {
	e := t.entries[id]
	if e == nil || !e.tracked() && e.phase != ended || e.begun.phase != bursarv1.Phase_PHASE_STARTING || !isResult(phase) {
		return
	}
	e.begun.phase, e.begun.reason, e.begun.at, e.begun.news = phase, reason, at, true
	if e.phase == ended { // the result came just before the end
		e.tombstone = proto.CloneOf(e.tombstone)
		e.begun.endIn(e.tombstone)
	}
	t.urgent = true
	t.unsaved.add(id)
}

// endIn copies the start into the report of the engine's end.
func (b *begun) endIn(end *bursarv1.EngineEnd) {
	end.LogDirectory = b.logDirectory
	if isResult(b.phase) {
		end.Phase, end.PhaseReason = b.phase, b.reason
	}
}

// Phase returns the phase of an engine whose readiness this agent watches; otherwise unspecified.
func (t *Tracker) Phase(id string) bursarv1.Phase {
	if e := t.entries[id]; e != nil && e.tracked() {
		return e.begun.phase
	}
	return bursarv1.Phase_PHASE_UNSPECIFIED
}

// isResult reports whether a phase is the last one of an engine's start.
func isResult(p bursarv1.Phase) bool {
	return p == bursarv1.Phase_PHASE_READY || p == bursarv1.Phase_PHASE_FAILED
}

// showIn sets the phase of an allocation, unless the coordinator has set a final one.
func (b *begun) showIn(a *bursarv1.Allocation) {
	if b.phase == bursarv1.Phase_PHASE_UNSPECIFIED || isResult(a.GetPhase()) {
		return
	}
	a.Phase, a.PhaseReason = b.phase, b.reason
	if !b.at.IsZero() {
		a.PhaseTime = timestamppb.New(b.at)
	}
}
