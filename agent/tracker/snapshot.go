package tracker

import (
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// Snapshot is what an agent must know again after its own restart. Reservations are not in it: the coordinator has them.
type Snapshot struct {
	// Epoch is the highest seen, Leadership the number of whose it is, 0 where that is not known, and StoreID the identity of the store behind it.
	Epoch      uint64
	Leadership uint64
	StoreID    string
	// BootID is the boot that the engines' processes belong to.
	BootID string
	// Engines are the full records of the active allocations with a process here.
	Engines []*bursarv1.Allocation
	// Ended are the tombstones that were not acknowledged.
	Ended []*bursarv1.EngineEnd
}

// Unsaved reports whether a Snapshot would differ from the last one.
func (t *Tracker) Unsaved() bool { return t.changed != t.saved }

// Snapshot returns what to store, in the order of the ids.
func (t *Tracker) Snapshot() Snapshot {
	t.saved = t.changed
	s := Snapshot{Epoch: t.epoch, Leadership: t.leadership, StoreID: t.storeID, BootID: t.host.BootID}
	for _, e := range t.inOrder() {
		switch {
		case e.tracked() && t.identified(e): // of the others the coordinator tells again
			s.Engines = append(s.Engines, e.grant)
		case e.phase == ended:
			s.Ended = append(s.Ended, e.tombstone)
		}
	}
	return s
}

// NotSaved says that the last Snapshot could not be stored.
func (t *Tracker) NotSaved() { t.saved-- }

// Stats is the host's books as the agent knows them.
type Stats struct {
	Reserved, Engines, Leases, Orphaned int
	Tombstones, Vetoes                  int
	// Booked is what reserved and active allocations are entitled to, Used what the engines' processes were measured to use.
	BookedMemory, BookedCPU int64
	UsedMemory, UsedCPU     int64
	UnreclaimableMemory     int64
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
	s.BookedMemory += e.grant.GetEntitled().GetMemoryBytes()
	s.BookedCPU += e.grant.GetEntitled().GetCpuMillis()
	if u := e.usage; u != nil {
		s.UsedMemory += u.MemoryBytes
		s.UsedCPU += u.CPUMillis
		s.UnreclaimableMemory += u.UnreclaimableBytes
		if u.Orphaned {
			s.Orphaned++
		}
	}
}
