package host

import (
	"time"

	"github.com/bursar/bursar/internal/cgroupfs"
)

// Only page tables show which pages several processes share, and which pages a process has given
// back with MADV_FREE: the kernel divides each page by its number of mappings (the "proportional
// set size" in /proc/PID/smaps_rollup). That walk costs about 10 ms per GiB (measured on Linux
// 6.18). So Engines makes it only if the double count could be large, and only for a small part of
// the time.

// worthSharing is the smallest double count, in bytes, that justifies a walk.
const worthSharing = 16 << 20

// sharesPart bounds the walks to the fraction 1/sharesPart of one core, over the time since the
// last pass.
const sharesPart = 64

// firstShares is the time for walks in the first pass.
const firstShares = 100 * time.Millisecond

// walkPatience is how long a pass waits for one walk. The walk takes a lock of the process, which
// other threads can hold for any time: a process that waits for a hanging file system may hold it
// for ever.
const walkPatience = time.Second

// shares keeps the results of walks.
type shares struct {
	known map[shareKey]*share
	now   func() time.Time
	// patience is walkPatience.
	patience time.Duration
	// budget is the time left for walks. A walk is not interrupted: its excess time is subtracted
	// from the next passes.
	budget time.Duration
	begun  bool
	// at is the time of the last pass.
	at time.Time
	// lazyLeft is the part of the machine's lazily freed memory, in bytes, that this pass has not
	// attributed yet.
	lazyLeft int64
	// exhausted: this pass has refused a walk to a family.
	exhausted bool
	// unsupported: the kernel (before 5.4) does not distinguish the kinds of memory in
	// smaps_rollup.
	unsupported bool
	// pending is a walk that exceeded the patience of a pass; nil: none. There is at most one, so
	// that hanging processes, however many, cost only one thread.
	pending *pageWalk
	// scratch belongs to the walks; nil while a pending walk uses it.
	scratch *scratch
}

type shareKey struct {
	engine *engine
	image  image
}

// share is the memory of one family of processes without page cache, each page counted once.
type share struct {
	proportional

	fingerprint uint64
	// sumSwapped is the total swap of the family's processes; shared pages count several times.
	sumSwapped int64
	// used: a pass since begin has asked for it.
	used bool
}

// proportional is the memory of some processes, each page divided by the number of processes that
// share it, in bytes.
type proportional struct {
	// bytes is anonymous and shared memory, in RAM and in swap. swapped is the part in swap. lazy
	// is the part that was given back with MADV_FREE and not reclaimed yet, undivided.
	bytes, swapped, lazy int64
}

// begin starts a pass; elapsed is the time since the last one, 0 for the first.
func (s *shares) begin(elapsed time.Duration, now func() time.Time) {
	if s.known == nil {
		s.known = map[shareKey]*share{}
		s.scratch = &scratch{}
		byDefault(&s.patience, walkPatience)
	}
	if elapsed == 0 && !s.begun {
		elapsed = firstShares * sharesPart
	}
	s.now, s.begun, s.exhausted = now, true, false
	s.budget = min(firstShares, s.budget+elapsed/sharesPart)
	if s.pending != nil {
		s.finishPending()
	}
}

// end removes families that no longer exist.
func (s *shares) end() {
	for key, of := range s.known {
		if !of.used {
			delete(s.known, key)
		}
		of.used = false
	}
}

// familyMemory returns a family's memory, and the certain part of it. They differ if the family may
// share memory and the amount is unknown: they are then the sum, and the memory of its largest
// process.
func (m *Meter) familyMemory(key shareKey, kin *family) treeUse {
	s := &m.tracker.shares
	// A process can map shared memory several times: a Java heap of ZGC does.
	double := max(kin.sum-kin.largest, kin.shared)
	if kin.outside {
		double = kin.sum
	}
	alone := len(kin.processes) == 1 && !kin.outside
	lazy := min(kin.anonymous, s.lazyLeft)
	if lazy <= worthSharing {
		lazy = 0
	}
	if double <= worthSharing && lazy == 0 {
		if alone {
			return treeUse{held: kin.sum, unreclaimable: kin.sum, swapped: kin.swapped}
		}
		return treeUse{held: kin.sum, unreclaimable: kin.largest, swapped: kin.largestSwapped}
	}
	of, looked := m.look(key, kin)
	if looked {
		certain := min(of.bytes, kin.sum)
		return s.without(of, treeUse{held: of.bytes, unreclaimable: certain, swapped: min(of.swapped, certain)})
	}
	var use treeUse
	known := of.fingerprint == kin.fingerprint
	switch {
	case alone && double <= worthSharing: // the only doubt is memory given back
		use = treeUse{held: kin.sum, unreclaimable: kin.sum, swapped: kin.swapped}
	case known:
		bytes := min(of.bytes, kin.sum)
		// Memory swapped since then counts as this family's alone: the available memory is then too
		// low.
		swapped := of.swapped + max(0, kin.swapped-of.sumSwapped)
		use = treeUse{held: bytes, unreclaimable: bytes, swapped: min(swapped, kin.swapped, bytes)}
	case alone:
		// Only its shared memory is in doubt.
		use = treeUse{held: kin.sum, unreclaimable: kin.sum - kin.shared, swapped: kin.swapped}
	default:
		use = treeUse{held: kin.sum, unreclaimable: kin.largest, swapped: kin.largestSwapped}
		if kin.outside {
			use.unsure = kin.largest
		}
	}
	if known {
		use = s.without(of, use)
	}
	use.unsure = min(use.unreclaimable, max(use.unsure, lazy-use.lazy))
	return use
}

// look returns the known share of a family, and whether it has just walked the family's page
// tables.
func (m *Meter) look(key shareKey, kin *family) (of *share, looked bool) {
	s := &m.tracker.shares
	if of = s.known[key]; of == nil {
		of = &share{}
		s.known[key] = of
	}
	of.used = true
	if s.unsupported || s.budget <= 0 || s.pending != nil {
		s.exhausted = true
		return of, false
	}
	return of, m.walkPages(key, kin)
}

// without subtracts the lazily freed memory that a walk has found from a family's memory, as far as
// the machine still has that much.
func (s *shares) without(of *share, use treeUse) treeUse {
	use.lazy = min(of.lazy, s.lazyLeft, use.unreclaimable-use.swapped)
	use.unreclaimable -= use.lazy
	s.lazyLeft -= use.lazy
	return use
}

// touchedAgain counts pages that processes in an engine's cgroup gave back with MADV_FREE and then
// wrote to again. Such pages stay on the list of file pages until the kernel reclaims there, so the
// lists of anonymous pages miss them. Page tables show them.
func (m *Meter) touchedAgain(e *engine, usage *Usage) {
	if e.lazy <= worthSharing {
		return
	}
	key, kin := shareKey{e, image{}}, &family{processes: e.inside}
	for _, pid := range e.inside {
		kin.fingerprint += uint64(pid) * 0x9e3779b97f4a7c15 //nolint:gosec // any bits will do
	}
	of, looked := m.look(key, kin)
	if !looked && (of.fingerprint != kin.fingerprint || of.fingerprint == 0) {
		return // only the lists are known
	}
	given := min(e.lazy, of.lazy)
	usage.UnreclaimableBytes = cgroupfs.Add(usage.UnreclaimableBytes, e.lazy-given)
	if !looked { // more may have been given back since
		usage.UnsureBytes = e.lazy - given
	}
	e.lazy = given
}
