package tracker

import (
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// begun is what is known of the start of an engine that this agent has launched.
type begun struct {
	// logDirectory is where its output goes, once it may have run; empty: it has not.
	logDirectory string
	// phase is how far it is, if this agent watches that. Of the others, at is when it came to the
	// phase, and reason why it failed.
	phase  bursarv1.Phase
	at     time.Time
	reason string
	// news: some of it was in no Sync yet.
	news bool
}

// SetBegun notes that an engine may have run, and where its output goes. If the agent watches when
// it is ready, its phase is starting, unless its record says that it was ready or has failed.
func (t *Tracker) SetBegun(id, logDirectory string, watched bool) {
	e := t.entries[id]
	if e == nil || !e.tracked() {
		return
	}
	if e.begun.logDirectory != logDirectory {
		e.begun.logDirectory, e.begun.news = logDirectory, true // the answer to an order says it sooner
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

// SetPhase notes that an engine that starts is ready, or has failed to be.
func (t *Tracker) SetPhase(id string, phase bursarv1.Phase, reason string, at time.Time) {
	e := t.entries[id]
	if e == nil || !e.tracked() && e.phase != ended || e.begun.phase != bursarv1.Phase_PHASE_STARTING || !isResult(phase) {
		return
	}
	e.begun.phase, e.begun.reason, e.begun.at, e.begun.news = phase, reason, at, true
	if e.phase == ended { // it was found just before its end
		e.tombstone = proto.CloneOf(e.tombstone)
		e.begun.endIn(e.tombstone)
	}
	t.urgent = true
	t.unsaved.add(id)
}

// endIn completes the report of the engine's end.
func (b *begun) endIn(end *bursarv1.EngineEnd) {
	end.LogDirectory = b.logDirectory
	if isResult(b.phase) {
		end.Phase, end.PhaseReason = b.phase, b.reason
	}
}

// Phase is how far an engine is whose readiness this agent watches; unspecified: it watches that of
// no such engine.
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

// showIn fills in the phase, unless the coordinator has said one that stays.
func (b *begun) showIn(a *bursarv1.Allocation) {
	if b.phase == bursarv1.Phase_PHASE_UNSPECIFIED || isResult(a.GetPhase()) {
		return
	}
	a.Phase, a.PhaseReason = b.phase, b.reason
	if !b.at.IsZero() {
		a.PhaseTime = timestamppb.New(b.at)
	}
}
