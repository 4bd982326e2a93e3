package tracker

import (
	"bytes"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/bursar/bursar/agent/policy"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// Verdict says how the tracker treats an allocation that has reached the agent.
type Verdict uint8

const (
	// Passed means that the tracker holds nothing: the allocation is of another host, has ended, or
	// is older than the tracker's record.
	Passed Verdict = iota
	// Held means that the allocation counts on this host.
	Held
	// Vetoed means that the host has no memory for the grant. It counts as refused, and the next
	// Sync reports that.
	Vetoed
)

// Observe takes an allocation from the answer of a forwarded call, such as Allocate or Confirm.
// Such an answer does not contain its epoch. asOf is the Epoch when the call was sent, so that a
// later epoch prevails.
func (t *Tracker) Observe(now time.Time, a *bursarv1.Allocation, asOf uint64) Verdict {
	if a.GetId() == "" || a.GetHostId() != t.host.ID {
		return Passed
	}
	e := t.entries[a.GetId()]
	switch a.GetState() {
	case bursarv1.AllocationState_ALLOCATION_STATE_RESERVED, bursarv1.AllocationState_ALLOCATION_STATE_ACTIVE:
		if e == nil && a.GetRevision() <= t.seen {
			// A Sync has brought all allocations that lived at that revision: this one has ended,
			// or waits again. It does not matter which coordinator led when the call was sent. If
			// the store was restored since, revisions mean nothing; then the caller asks once more.
			return Passed
		}
		return t.accept(now, a, asOf, true)
	case bursarv1.AllocationState_ALLOCATION_STATE_WAITING, bursarv1.AllocationState_ALLOCATION_STATE_LOST:
		// It may be granted, or adopted, later.
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

// giveUp forgets an allocation that, for the ledger, did not become an engine. If the engine runs
// here, the ledger was restored to a time before it, or has taken the host for lost. Then the next
// Sync reports all engines, so that the ledger can adopt them.
func (t *Tracker) giveUp(a *bursarv1.Allocation, epoch uint64) {
	if e := t.entries[a.GetId()]; e != nil && e.tracked() {
		t.full = true
		return
	}
	t.forget(a, epoch)
}

// Knows reports whether the allocation is one of this host, or was until a moment ago.
func (t *Tracker) Knows(id string) bool { return t.entries[id] != nil }

// Released notes that a call released an allocation that the coordinator does not know.
func (t *Tracker) Released(id string) {
	if e := t.entries[id]; e != nil && e.phase != ended {
		t.forget(e.grant, e.epoch)
	}
}

// accept holds a grant of an epoch. If vetted is set, it checks the grant and may refuse it.
func (t *Tracker) accept(now time.Time, a *bursarv1.Allocation, epoch uint64, vetted bool) Verdict {
	e := t.entries[a.GetId()]
	switch {
	case e == nil:
		e = &entry{}
	case e.phase == ended:
		return Passed // the tombstone has the result
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
	if e.over.end == nil { // an agent that has lost its state learns it from the coordinator
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

// takeSeal stores the new seal of a known grant: a coordinator renews seals from time to time.
func (t *Tracker) takeSeal(e *entry, a *bursarv1.Allocation, epoch uint64) {
	if !e.tracked() || e.epoch != epoch || e.grant.GetRevision() != a.GetRevision() || len(a.GetSeal()) == 0 || bytes.Equal(a.GetSeal(), e.grant.GetSeal()) {
		return
	}
	e.grant = proto.CloneOf(e.grant)
	e.grant.Seal = a.GetSeal()
	t.unsaved.add(a.GetId())
}

// before reports whether the entry is older than the allocation that has just come. An active
// allocation is always newer than its reservation.
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
		// states do not go back; a ledger that was restored learns of the engine with the next full
		// Sync
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

// forget remembers of an allocation only that it ended, until each answer that may still arrive is
// known to be newer.
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

// Refusal is the reason why the host refused a grant.
type Refusal struct {
	Headroom int64 // bytes; 0 if it was not known
	// Reason is empty if there is not enough memory.
	Reason string
}

// Veto returns the refusal of a grant, until the coordinator has received it.
func (t *Tracker) Veto(id string) (r Refusal, pending bool) {
	if e := t.entries[id]; e != nil && e.phase == vetoed {
		return e.refusal, true
	}
	return Refusal{}, false
}
