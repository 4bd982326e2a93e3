package tracker

import (
	"google.golang.org/protobuf/proto"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// Snapshot is what an agent must know again after its own restart. Reservations are not in it: the
// coordinator has them.
type Snapshot struct {
	// Epoch is the highest seen, Leadership the number of the leadership that it is of (0: not
	// known), StoreID the identity of the store behind it, and Cluster the name of the cluster
	// (empty: not known).
	Epoch      uint64
	Leadership uint64
	StoreID    string
	Cluster    string
	// BootID is the boot that the engines' processes belong to.
	BootID string
	// Engines are the full records of the active allocations with a process here.
	Engines []*bursarv1.Allocation
	// Left are processes of the engines, by allocation, that have to be remembered.
	Left map[string][]Left
	// Ended are the tombstones that were not acknowledged.
	Ended []*bursarv1.EngineEnd
}

// Change is what has become of some of a Snapshot's engines since.
type Change struct {
	// Engines run, each with its record as it is now, and Ended have ended. Both replace what was
	// known of them.
	Engines []*bursarv1.Allocation
	Ended   []*bursarv1.EngineEnd
	// Left is as in a Snapshot, of these engines.
	Left map[string][]Left
	// Gone are allocations that a Snapshot does not show any more.
	Gone []string
}

// unsaved is what is not stored yet: all, or what became of some allocations.
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

// SaveAll says that what was stored is not there any more.
func (t *Tracker) SaveAll() { t.unsaved.all = true }

// Snapshot returns what to store, in the order of the ids.
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

// Change returns what to store in addition to what was stored before: as much as has changed,
// however many engines there are. It is not enough if more than engines has changed, such as the
// epoch. Then nothing is taken, and a Snapshot says all.
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

// withLeft adds what has to be remembered of an engine.
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

// record is what a Snapshot has of an engine, with what a later incarnation cannot measure again.
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

// stored reports whether an entry is an engine that a Snapshot shows. The coordinator names those
// again that were not shown here.
func (t *Tracker) stored(e *entry) bool { return e.tracked() && t.identified(e) }

// NotSaved says that what was taken last, a Snapshot or a Change, could not be stored.
func (t *Tracker) NotSaved() {
	t.unsaved.all = t.unsaved.all || t.taken.all
	for id := range t.taken.ids {
		t.unsaved.add(id)
	}
}

func (t *Tracker) takeUnsaved() { t.taken, t.unsaved = t.unsaved, unsaved{} }

// Stats are sums over the host's allocations as the agent knows them.
type Stats struct {
	Reserved, Engines, Leases, Orphaned int
	Tombstones, Vetoes                  int
	// Entitled is what reserved and active allocations are entitled to, Used what the engines'
	// processes were measured to use.
	EntitledMemory, EntitledCPU int64
	UsedMemory, UsedCPU         int64
	UnreclaimableMemory         int64
}

// Stats counts.
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
