package tracker

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/bursar/bursar/internal/discovery"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// ErrLate is the error for the answer to a Sync when a later Sync was answered already. The agent
// loses nothing by it.
var ErrLate = errors.New("answer to an older sync")

// EpochError refuses an answer from a coordinator that no longer leads. If both epochs are the
// same, they belong to two leaderships. An epoch far above the agent's does not come from a leader.
type EpochError struct {
	Got, Have uint64
}

func (e *EpochError) Error() string {
	if e.Got > e.Have {
		return fmt.Sprintf("answer of epoch %d is more than %d above %d, the last that was seen: it is not from a coordinator of this host's cluster; if it is, start the agent once with --forget-epoch",
			e.Got, discovery.EpochStride, e.Have)
	}
	if e.Got == e.Have {
		return fmt.Sprintf("answer of epoch %d is of another leadership than the one that was seen", e.Got)
	}
	return fmt.Sprintf("answer of epoch %d is older than %d", e.Got, e.Have)
}

// Outcome tells the agent what to do after the answer to a Sync.
type Outcome struct {
	// Stops are the engines of this host that the agent must end. The coordinator repeats them
	// until they have ended.
	Stops []*bursarv1.StopOrder
	// Adopted are engines that the agent learned from the coordinator. The agent watches them from
	// now on.
	Adopted []*bursarv1.Allocation
	// Forgotten are engines that have ended for the ledger. Their processes, if any, run on.
	Forgotten []*bursarv1.Allocation
	// Vetoed are new grants that this host has no memory for.
	Vetoed []*bursarv1.Allocation
	// Shutdown: another agent has this host. The tracker ignored the rest of the answer.
	Shutdown bool
}

// Answer processes the answer to a Sync. The errors are ErrLate and *EpochError; they mean that the
// tracker ignored the answer.
func (t *Tracker) Answer(now time.Time, q *bursarv1.SyncRequest, r *bursarv1.SyncResponse) (Outcome, error) {
	switch {
	case q.GetIncarnation() != t.host.Incarnation || q.GetSequence() <= t.answered:
		return Outcome{}, ErrLate
	case t.refuses(r):
		return Outcome{}, &EpochError{Got: r.GetEpoch(), Have: t.epoch}
	case r.GetAction() == bursarv1.SyncAction_SYNC_ACTION_SHUTDOWN:
		return Outcome{Shutdown: true}, nil
	}
	t.answered = q.GetSequence()
	t.setInterval(r.GetInterval().AsDuration())
	t.acknowledge(r.GetAcknowledged())
	t.delivered(q)
	newEpoch := r.GetEpoch() > t.epoch
	t.enter(r, "")
	if r.GetAction() == bursarv1.SyncAction_SYNC_ACTION_RESYNC || newEpoch && !q.GetFull() {
		// The rest of the answer is not based on all engines that run here. The agent must not give
		// up an engine because of it.
		t.Resync()
		t.resyncAfter = min(max(0, r.GetResyncAfter().AsDuration()), mostResyncAfter)
		return Outcome{Stops: t.stops(r)}, nil
	}
	t.draining = r.GetAction() == bursarv1.SyncAction_SYNC_ACTION_DRAIN
	out := t.reconcile(now, q, r)
	t.seen = max(t.seen, r.GetLedgerSequence())
	t.forgetServed(q)
	if q.GetFull() {
		t.full, t.lastFull = false, now
	}
	return out, nil
}

// acknowledge drops the tombstones that the coordinator has acknowledged.
func (t *Tracker) acknowledge(ids []string) {
	for _, id := range ids {
		if e := t.entries[id]; e != nil && e.phase == ended {
			t.remove(id)
			t.unsaved.add(id)
		}
	}
}

// delivered marks reports as received, unless a later Sync was sent that may differ. The memory
// that engines have touched counts as received only with a sample that is new to the coordinator
// and has the machine's available memory. Otherwise the next Sync reports it again.
func (t *Tracker) delivered(q *bursarv1.SyncRequest) {
	if q.GetSequence() != t.sequence {
		return
	}
	counts := q.GetSample() != t.reportedSample && q.GetSample().MemoryAvailableBytes != nil
	t.reportedSample = q.GetSample()
	for _, report := range q.GetEngines() {
		if e := t.entries[report.GetAllocationId()]; e != nil && counts {
			e.pending = false
		}
	}
	if q.GetCapacity() != nil && q.GetCapacity() == t.host.Capacity {
		t.resized = false
	}
}

// reconcile makes the entries agree with the ledger. Entries newer than the answer stay. Memory is
// given back first, because the ledger may have granted it again.
func (t *Tracker) reconcile(now time.Time, q *bursarv1.SyncRequest, r *bursarv1.SyncResponse) Outcome {
	var out Outcome
	grants := t.reservationsLast(r.GetGrants())
	t.dropEnded(q, r, grants, &out)
	// Do not vet an allocation again that is older than this incarnation: the previous incarnation
	// has vetted it, and the engine may have started.
	vetted := !t.lastFull.IsZero()
	for _, a := range grants {
		known := t.entries[a.GetId()]
		wasTracked, wasVetoed := known != nil && known.tracked(), known != nil && known.phase == vetoed
		verdict := t.accept(now, a, r.GetEpoch(), vetted)
		e := t.entries[a.GetId()]
		switch {
		case verdict == Vetoed && !wasVetoed:
			out.Vetoed = append(out.Vetoed, a)
		case verdict == Held && e.tracked() && !wasTracked:
			out.Adopted = append(out.Adopted, e.grant)
		}
	}
	out.Stops = t.stops(r)
	return out
}

// reservationsLast returns the grants of this host. Grants that the tracker holds come first,
// because they may have become smaller; so do engines, because they have their memory already.
func (t *Tracker) reservationsLast(grants []*bursarv1.Allocation) []*bursarv1.Allocation {
	var first, last []*bursarv1.Allocation
	for _, a := range grants {
		_, holds := t.Get(a.GetId())
		switch {
		case a.GetHostId() != t.host.ID:
		case holds || a.GetState() != bursarv1.AllocationState_ALLOCATION_STATE_RESERVED:
			first = append(first, a)
		default:
			last = append(last, a)
		}
	}
	return append(first, last...)
}

// dropEnded drops allocations that have ended for the ledger: those in gone, and those that a
// complete answer does not list. An allocation in both gone and the grants was granted or adopted
// again later.
func (t *Tracker) dropEnded(q *bursarv1.SyncRequest, r *bursarv1.SyncResponse, grants []*bursarv1.Allocation, out *Outcome) {
	listed := make(map[string]bool, len(grants))
	for _, a := range grants {
		listed[a.GetId()] = true
	}
	for _, id := range r.GetGone() {
		if e := t.entries[id]; e != nil && !listed[id] && e.coveredBy(r) {
			t.drop(e, out)
		}
	}
	if r.GetComplete() {
		t.dropAbsent(q, r, listed, out)
	}
}

// coveredBy reports whether the answer is at least as new as the entry.
func (e *entry) coveredBy(r *bursarv1.SyncResponse) bool {
	return (e.phase == held || e.phase == vetoed) &&
		(e.epoch < r.GetEpoch() || e.grant.GetRevision() <= r.GetLedgerSequence())
}

// dropAbsent drops entries that a complete answer does not list. It drops an engine only if this
// very Sync reported it, so that the ledger could have adopted it.
func (t *Tracker) dropAbsent(q *bursarv1.SyncRequest, r *bursarv1.SyncResponse, listed map[string]bool, out *Outcome) {
	heard := make(map[string]bool, len(q.GetEngines()))
	for _, report := range q.GetEngines() {
		heard[report.GetAllocationId()] = q.GetFull()
	}
	for _, e := range t.inOrder() {
		id := e.grant.GetId()
		if listed[id] || !e.coveredBy(r) || e.tracked() && !heard[id] {
			continue
		}
		t.drop(e, out)
	}
}

// drop removes an entry. If a later answer has so old a revision, its ledger sequence shows that it
// is stale.
func (t *Tracker) drop(e *entry, out *Outcome) {
	if e.tracked() {
		out.Forgotten = append(out.Forgotten, e.grant)
		t.unsaved.add(e.grant.GetId())
	}
	t.remove(e.grant.GetId())
}

// forgetServed removes entries that were only kept until this answer: allocations that ended before
// it, and vetoes that the Sync carried.
func (t *Tracker) forgetServed(q *bursarv1.SyncRequest) {
	for id, e := range t.entries {
		past := e.epoch < t.epoch || e.grant.GetRevision() <= t.seen
		heard := e.sentIn != 0 && e.sentIn <= q.GetSequence()
		if past && (e.phase == forgotten || e.phase == vetoed && heard) {
			t.remove(id)
		}
	}
}

// stops returns the orders for engines that still run and that this agent has identified.
func (t *Tracker) stops(r *bursarv1.SyncResponse) []*bursarv1.StopOrder {
	return slices.DeleteFunc(slices.Clone(r.GetStops()), func(order *bursarv1.StopOrder) bool {
		e := t.entries[order.GetAllocationId()]
		return e == nil || !e.tracked() || !t.identified(e)
	})
}
