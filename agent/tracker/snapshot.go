package tracker

import (
	"google.golang.org/protobuf/proto"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// Snapshot is the state that an agent must keep across its own restart. It has no reservations: the
// coordinator has them.
type Snapshot struct {
	// Epoch is the highest epoch seen, Leadership the number of its leadership (0: not known),
	// StoreID the identity of its store, and Cluster the name of its cluster (empty: not known).
	Epoch      uint64
	Leadership uint64
	StoreID    string
	Cluster    string
	// BootID is the boot of the engines' processes.
	BootID string
	// Engines are the full records of the active allocations with a process here.
	Engines []*bursarv1.Allocation
	// Left are the processes of engines to remember, by allocation.
	Left map[string][]Left
	// Ended are the tombstones that the coordinator has not acknowledged.
	Ended []*bursarv1.EngineEnd
}

// Change is the change of some of a Snapshot's engines.
type Change struct {
	// Engines are the new records of running engines, Ended the tombstones of ended ones. Both
	// replace the earlier records.
	Engines []*bursarv1.Allocation
	Ended   []*bursarv1.EngineEnd
	// Left is as in a Snapshot, of these engines.
	Left map[string][]Left
	// Gone are allocations that a Snapshot no longer contains.
	Gone []string
}

// unsaved says which changes are not stored yet: all, or those of some allocations.
type unsaved struct {
	all bool
	ids map[string]struct{}
}

func (u *unsaved) add(id string) {
	if u.ids == nil {
		u.ids = make(map[string]struct{})
	}
	u.ids[id] = struct{}{}
}

// Unsaved reports whether a Snapshot would differ from the last one.
func (t *Tracker) Unsaved() bool { return t.unsaved.all || len(t.unsaved.ids) > 0 }

// SaveAll says that the stored state is lost.
func (t *Tracker) SaveAll() { t.unsaved.all = true }

// Snapshot returns the state to store, in the order of the ids.
func (t *Tracker) Snapshot() Snapshot {
	t.takeUnsaved()
	s := Snapshot{Epoch: t.epoch, Leadership: t.leadership, StoreID: t.storeID, Cluster: t.cluster, BootID: t.host.BootID}
	for _, e := range t.inOrder() {
		switch {
		case t.stored(e):
			s.Engines = append(s.Engines, e.record())
			s.Left = e.withLeft(s.Left)
		case e.phase == ended:
			s.Ended = append(s.Ended, e.tombstone)
		}
	}
	return s
}

// Change returns the changes to store in addition to the earlier state. Its cost depends on the
// number of changes, not on that of engines. If something other than engines has changed, such as
// the epoch, enough is false, and the caller must store a Snapshot.
func (t *Tracker) Change() (c Change, enough bool) {
	if t.unsaved.all {
		return Change{}, false
	}
	t.takeUnsaved()
	for id := range t.taken.ids {
		switch e := t.entries[id]; {
		case e != nil && t.stored(e):
			c.Engines = append(c.Engines, e.record())
			c.Left = e.withLeft(c.Left)
		case e != nil && e.phase == ended:
			c.Ended = append(c.Ended, e.tombstone)
		default:
			c.Gone = append(c.Gone, id)
		}
	}
	return c, true
}

// withLeft adds the processes to remember of an engine.
func (e *entry) withLeft(all map[string][]Left) map[string][]Left {
	if len(e.over.left) == 0 {
		return all
	}
	if all == nil {
		all = make(map[string][]Left)
	}
	all[e.grant.GetId()] = e.over.left
	return all
}

// record returns an engine's record in a Snapshot. It includes data that a later incarnation cannot
// measure again.
func (e *entry) record() *bursarv1.Allocation {
	use := e.use()
	ended := e.over.end != nil && !proto.Equal(e.over.end, e.grant.GetLeaderEnd())
	started := isResult(e.begun.phase)
	if !ended && !started && len(e.kept) == 0 && use.Peak == nil && use.CPUTime == nil {
		return e.grant
	}
	a := proto.CloneOf(e.grant)
	if ended {
		a.LeaderEnd = e.over.end
	}
	if started {
		e.begun.showIn(a)
	}
	a.Incidents = e.kept
	use.showIn(a)
	return a
}

// stored reports whether a Snapshot contains the entry. It contains engines that this agent has
// identified. The coordinator sends the others again.
func (t *Tracker) stored(e *entry) bool { return e.tracked() && t.identified(e) }

// NotSaved says that the last Snapshot or Change could not be stored.
func (t *Tracker) NotSaved() {
	t.unsaved.all = t.unsaved.all || t.taken.all
	for id := range t.taken.ids {
		t.unsaved.add(id)
	}
}

func (t *Tracker) takeUnsaved() { t.taken, t.unsaved = t.unsaved, unsaved{} }

// Stats are sums over the host's allocations.
type Stats struct {
	Reserved, Engines, Leases, Orphaned int
	Tombstones, Vetoes                  int
	// Entitled is the entitlement of reserved and active allocations, Used the measured use of the
	// engines' processes.
	EntitledMemory, EntitledCPU int64
	UsedMemory, UsedCPU         int64
	UnreclaimableMemory         int64
}

// Stats returns the current sums.
func (t *Tracker) Stats() Stats {
	var s Stats
	for _, e := range t.entries {
		switch e.phase {
		case ended:
			s.Tombstones++
		case vetoed:
			s.Vetoes++
		case held:
			s.count(e)
		case forgotten:
		}
	}
	return s
}

func (s *Stats) count(e *entry) {
	switch {
	case e.grant.GetState() == bursarv1.AllocationState_ALLOCATION_STATE_RESERVED:
		s.Reserved++
	case e.tracked():
		s.Engines++
	default:
		s.Leases++
	}
	s.EntitledMemory += e.grant.GetEntitled().GetMemoryBytes()
	s.EntitledCPU += e.grant.GetEntitled().GetCpuMillis()
	if u := e.usage; u != nil {
		s.UsedMemory += u.MemoryBytes
		s.UsedCPU += u.CPUMillis
		s.UnreclaimableMemory += u.UnreclaimableBytes
		if u.Orphaned {
			s.Orphaned++
		}
	}
}
