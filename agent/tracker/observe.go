package tracker

import (
	"bytes"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/bursar/bursar/agent/policy"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// Verdict is what an allocation that reached the agent is to it.
type Verdict uint8

const (
	// Passed means that there is nothing to hold, because it does not count here, has ended, or is
	// older than what is known.
	Passed Verdict = iota
	// Held means that it counts on this host, as it is.
	Held
	// Vetoed means that it is a grant that there is no memory for. It counts as refused, and the
	// next Sync says so.
	Vetoed
)

// Observe takes an allocation from the answer of a call that was forwarded, such as Allocate or
// Confirm. Such an answer does not say which epoch it is from: asOf is the Epoch when the call was
// sent, so that whatever a later epoch says prevails.
func (t *Tracker) Observe(now time.Time, a *bursarv1.Allocation, asOf uint64) Verdict {
	if a.GetId() == "" || a.GetHostId() != t.host.ID {
		return Passed
	}
	e := t.entries[a.GetId()]
	switch a.GetState() {
	case bursarv1.AllocationState_ALLOCATION_STATE_RESERVED, bursarv1.AllocationState_ALLOCATION_STATE_ACTIVE:
		if e == nil && a.GetRevision() <= t.seen {
			// All that lived by then has come with a Sync: this one has ended, or waits again. It
			// does not matter who led when the call was sent. If the store was put back since,
			// revisions say nothing; then it is asked for once more.
			return Passed
		}
		return t.accept(now, a, asOf, true)
	case bursarv1.AllocationState_ALLOCATION_STATE_WAITING, bursarv1.AllocationState_ALLOCATION_STATE_LOST:
		// Not for good: it may be granted, or adopted, later.
		if e == nil || e.before(a, asOf) {
			t.giveUp(a, asOf)
		}
	case bursarv1.AllocationState_ALLOCATION_STATE_CANCELED, bursarv1.AllocationState_ALLOCATION_STATE_EXPIRED:
		t.giveUp(a, asOf)
	default:
		t.forget(a, asOf)
	}
	return Passed
}

// giveUp forgets an allocation that did not become an engine, as far as the ledger knows. If the
// engine is here, the ledger was put back to a time before it, or has taken the host for lost.
// Then all that runs is reported, for the ledger to take over.
func (t *Tracker) giveUp(a *bursarv1.Allocation, epoch uint64) {
	if e := t.entries[a.GetId()]; e != nil && e.tracked() {
		t.full = true
		return
	}
	t.forget(a, epoch)
}

// Knows reports whether the allocation is, or was a moment ago, one of this host.
func (t *Tracker) Knows(id string) bool { return t.entries[id] != nil }

// Released notes that an allocation was given back by a call that did not return it: the
// coordinator does not know it.
func (t *Tracker) Released(id string) {
	if e := t.entries[id]; e != nil && e.phase != ended {
		t.forget(e.grant, e.epoch)
	}
}

// accept holds a grant of an epoch, or, if it is vetted, may refuse it.
func (t *Tracker) accept(now time.Time, a *bursarv1.Allocation, epoch uint64, vetted bool) Verdict {
	e := t.entries[a.GetId()]
	switch {
	case e == nil:
		e = &entry{}
	case e.phase == ended:
		return Passed // the tombstone says what became of it
	case !e.before(a, epoch):
		t.takeSeal(e, a, epoch)
		return e.verdict()
	}
	isNew := e.phase != held
	was := e.tracked()
	process := e.grant.GetProcess()
	if p := a.GetProcess(); p.GetPid() != 0 && p.GetPid() == process.GetPid() && p.GetStartTime() == 0 {
		a = proto.CloneOf(a)
		a.Process = process // as SetProcess completed it
	}
	*e = entry{
		phase: held, grant: withoutIncidents(a), epoch: epoch, usage: e.usage, reported: e.reported, pending: e.pending, judgement: e.judgement, counted: e.counted,
		incidents: e.incidents, kept: e.kept, noted: e.noted, judged: e.judged, rule: e.rule,
		peak: e.peak, cpuTime: e.cpuTime, stopError: e.stopError, reportedStopError: e.reportedStopError, over: e.over,
		memoryLimit: e.memoryLimit, reportedMemoryLimit: e.reportedMemoryLimit, begun: e.begun,
	}
	t.believe(e)
	if p := a.GetProcess(); p.GetPid() != process.GetPid() || p.GetStartTime() != process.GetStartTime() {
		e.usage, e.judgement, e.over, e.cpuTime, e.begun = nil, policy.Judgement{}, leftover{}, cpuTime{}, begun{}
	}
	if e.over.end == nil { // an agent that has lost its state hears it from the coordinator
		e.over.end, e.over.reported = a.GetLeaderEnd(), a.GetLeaderEnd()
	}
	t.put(e)
	if vetted && isNew && a.GetState() == bursarv1.AllocationState_ALLOCATION_STATE_RESERVED && !t.lastWord(now, e) {
		t.refusing = true
		return Vetoed
	}
	t.endIfRebooted(now, e)
	if was || e.tracked() || e.phase == ended {
		t.unsaved.add(a.GetId())
	}
	return Held
}

// takeSeal keeps the seal of a grant that is known already: a coordinator makes a new one from time
// to time.
func (t *Tracker) takeSeal(e *entry, a *bursarv1.Allocation, epoch uint64) {
	if !e.tracked() || e.epoch != epoch || e.grant.GetRevision() != a.GetRevision() || len(a.GetSeal()) == 0 || bytes.Equal(a.GetSeal(), e.grant.GetSeal()) {
		return
	}
	e.grant = proto.CloneOf(e.grant)
	e.grant.Seal = a.GetSeal()
	t.unsaved.add(a.GetId())
}

// before reports whether the entry is older than the allocation that has come now. A reservation
// that became active is always newer.
func (e *entry) before(a *bursarv1.Allocation, epoch uint64) bool {
	known := e.grant.GetState()
	latest := a.GetState()
	const (
		reserved = bursarv1.AllocationState_ALLOCATION_STATE_RESERVED
		active   = bursarv1.AllocationState_ALLOCATION_STATE_ACTIVE
	)
	switch {
	case e.phase == held && known == reserved && latest == active:
		return true
	case e.phase == held && known == active && latest == reserved:
		// a life does not go back; a ledger that did hears of the engine with the next full Sync
		return false
	}
	return e.epoch < epoch || e.epoch == epoch && e.grant.GetRevision() < a.GetRevision()
}

func (e *entry) verdict() Verdict {
	switch e.phase {
	case held:
		return Held
	case vetoed:
		return Vetoed
	default:
		return Passed
	}
}

// forget keeps of an allocation only that it ended, until every answer that may still be under way
// is known to be newer.
func (t *Tracker) forget(a *bursarv1.Allocation, epoch uint64) {
	e := t.entries[a.GetId()]
	if e != nil && e.phase == ended {
		return // the coordinator acknowledges the tombstone
	}
	if e != nil && e.tracked() {
		t.unsaved.add(a.GetId())
	}
	if e != nil && !e.before(a, epoch) {
		a, epoch = e.grant, e.epoch
	}
	t.put(&entry{phase: forgotten, grant: a, epoch: epoch})
}

// end turns an engine into a tombstone.
func (t *Tracker) end(e *entry, end *bursarv1.EngineEnd) {
	end.Incidents = e.incidents.messages()
	e.begun.endIn(end)
	e.phase, e.tombstone, e.usage, e.reported, e.incidents, e.kept = ended, end, nil, nil, nil, nil
	t.count(e)
	t.unsaved.add(e.grant.GetId())
	t.urgent = true
}

// endIfRebooted ends an engine whose process belongs to another boot.
func (t *Tracker) endIfRebooted(now time.Time, e *entry) {
	boot := e.grant.GetProcess().GetBootId()
	if e.tracked() && boot != "" && boot != t.host.BootID {
		t.end(e, rebooted(now, e.grant.GetId()))
	}
}

func rebooted(now time.Time, id string) *bursarv1.EngineEnd {
	return &bursarv1.EngineEnd{AllocationId: id, EndTime: timestamppb.New(now), Reason: "host rebooted"}
}

// Refusal is why a grant was refused.
type Refusal struct {
	Headroom int64 // bytes; 0 if it was not known
	// Reason is empty if the memory is not there.
	Reason string
}

// Veto returns why a grant was refused, until the coordinator has heard of it.
func (t *Tracker) Veto(id string) (r Refusal, pending bool) {
	if e := t.entries[id]; e != nil && e.phase == vetoed {
		return e.refusal, true
	}
	return Refusal{}, false
}
