package tracker_test

import (
	"fmt"
	"hash/fnv"
	"maps"
	"slices"

	"google.golang.org/protobuf/proto"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// books is a slow, obvious coordinator for one host: the contract of Register and Sync, without
// anything else.
type books struct {
	epoch, revision uint64
	live            map[string]*bursarv1.Allocation
	gone            map[string]uint64 // by the revision at which it ended
	incarnation     uint64
	sequence        uint64
	needFull        bool
	next            int
}

func newBooks() *books {
	return &books{epoch: 1, live: map[string]*bursarv1.Allocation{}, gone: map[string]uint64{}, needFull: true}
}

// put records a change of an allocation and returns the callers' view of it.
func (b *books) put(a *bursarv1.Allocation) *bursarv1.Allocation {
	b.revision++
	a = proto.CloneOf(a)
	a.Revision = b.revision
	b.live[a.GetId()] = a
	return a
}

func (b *books) grant(memory int64) *bursarv1.Allocation {
	b.next++
	return b.put(grant(fmt.Sprintf("a%03d", b.next), reserved, 0, memory))
}

func (b *books) confirm(id string, pid int32) *bursarv1.Allocation {
	a := b.live[id]
	if a == nil || a.GetState() != reserved {
		return nil
	}
	a = proto.CloneOf(a)
	a.State, a.Process = active, &bursarv1.Process{Pid: pid, StartTime: 7, BootId: "boot-1"}
	return b.put(a)
}

func (b *books) end(id string) *bursarv1.Allocation {
	a := b.live[id]
	if a == nil {
		return nil
	}
	a = proto.CloneOf(b.put(a))
	a.State = released
	delete(b.live, id)
	b.gone[id] = b.revision
	return a
}

// lead is a change to a leader without knowledge of the agents.
func (b *books) lead() {
	b.epoch++
	b.needFull, b.sequence = true, 0
}

// backup is the store as it is now.
func (b *books) backup() books {
	return books{revision: b.revision, live: maps.Clone(b.live), gone: maps.Clone(b.gone)}
}

// restore restores an earlier store: later changes are lost, revisions are used a second time, and
// a new leadership begins, above any epoch that an agent has seen. Ids contain the time and are not
// reused.
func (b *books) restore(from books) {
	b.revision, b.live, b.gone = from.revision, maps.Clone(from.live), maps.Clone(from.gone)
	b.lead()
}

func (b *books) register(q *bursarv1.RegisterRequest) *bursarv1.RegisterResponse {
	if q.GetIncarnation() < b.incarnation || q.GetEpoch() > b.epoch {
		return nil
	}
	if q.GetIncarnation() > b.incarnation {
		b.sequence = 0
	}
	b.incarnation, b.needFull = q.GetIncarnation(), true
	return &bursarv1.RegisterResponse{Epoch: b.epoch, StoreId: "store-1"}
}

// sync answers a heartbeat; nil is an error.
func (b *books) sync(q *bursarv1.SyncRequest) *bursarv1.SyncResponse {
	if q.GetEpoch() > b.epoch || q.GetIncarnation() < b.incarnation {
		return nil
	}
	if q.GetEpoch() < b.epoch || q.GetIncarnation() > b.incarnation {
		return &bursarv1.SyncResponse{Epoch: b.epoch, LedgerSequence: b.revision, Action: resync}
	}
	if q.GetSequence() <= b.sequence {
		return nil
	}
	b.sequence = q.GetSequence()
	r := &bursarv1.SyncResponse{}
	for _, end := range q.GetEnded() {
		b.end(end.GetAllocationId())
		r.Acknowledged = append(r.Acknowledged, end.GetAllocationId())
	}
	if q.GetFull() {
		b.reconcile(q)
	}
	for _, veto := range q.GetVetoes() {
		if a := b.live[veto.GetAllocationId()]; a.GetState() == reserved {
			b.end(a.GetId()) // it waits, and is granted again at once
			b.put(a)
		}
	}
	r.Epoch, r.LedgerSequence, r.Complete = b.epoch, b.revision, q.GetFull() || q.GetLedgerSequence() == 0
	changed := false
	for _, a := range b.live {
		isNew := a.GetRevision() > q.GetLedgerSequence()
		changed = changed || isNew
		if r.Complete || isNew {
			r.Grants = append(r.Grants, a)
		}
	}
	for id, revision := range b.gone {
		if revision > q.GetLedgerSequence() {
			changed = true
			r.Gone = append(r.Gone, id)
		}
	}
	slices.SortFunc(r.Grants, func(a, b *bursarv1.Allocation) int { return int(a.GetRevision()) - int(b.GetRevision()) })
	slices.Sort(r.Gone)
	if b.needFull || !q.GetFull() && !changed && q.GetDigest() != b.digest() {
		r.Action = resync
	}
	return r
}

func (b *books) reconcile(q *bursarv1.SyncRequest) {
	b.needFull = false
	running := map[string]bool{}
	for _, report := range q.GetEngines() {
		running[report.GetAllocationId()] = true
		if known := b.live[report.GetAllocationId()]; known == nil || known.GetState() != active {
			b.put(report.GetGrant())
		}
	}
	for id, a := range b.live {
		if a.GetState() == active && a.GetRevision() <= q.GetLedgerSequence() && !running[id] {
			b.end(id)
		}
	}
}

func (b *books) digest() uint64 {
	sum := uint64(0)
	for id, a := range b.live {
		if a.GetState() == active {
			hash := fnv.New64a()
			_, _ = hash.Write([]byte(id))
			sum += hash.Sum64()
		}
	}
	return sum
}

// ids returns the ids of the live allocations in a state.
func (b *books) ids(state bursarv1.AllocationState) []string {
	ids := []string{}
	for id, a := range b.live {
		if a.GetState() == state {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}
