package host

import (
	"time"

	"github.com/bursar/bursar/internal/cgroupfs"
)

// Only page tables tell what several processes share, and what one of them has given back with
// MADV_FREE: the kernel divides each page by the number of times it is mapped (its
// "proportional set size" in /proc/PID/smaps_rollup). That walk costs about 10 ms for each GiB
// (measured, Linux 6.18), so it is made only if the double count could be large, and for no more
// than a small part of the time.

// worthSharing is the double count, in bytes, below which the walk is not made.
const worthSharing = 16 << 20

// sharesPart is the part of one core that the walks may take: the time since the last pass divided
// by this.
const sharesPart = 64

// firstShares is the time that the walks may take in the first pass.
const firstShares = 100 * time.Millisecond

// walkPatience is how long a pass waits for one walk. It takes a lock of the process that others
// can hold for as long as they like: a process that waits for a file system that hangs may keep it
// for ever.
const walkPatience = time.Second

// shares remembers the outcome of walks.
type shares struct {
	known map[shareKey]*share
	now   func() time.Time
	// patience is walkPatience.
	patience time.Duration
	// budget is the time left for walks. A walk is not broken off: what it takes too long is
	// missing in the next passes.
	budget time.Duration
	begun  bool
	// at is when the last pass was.
	at time.Time
	// lazyLeft is the machine's lazily freed memory, in bytes, of which this pass has not found yet
	// whose it is.
	lazyLeft int64
	// exhausted: a family was denied its walk in this pass.
	exhausted bool
	// unsupported: the kernel (before 5.4) does not tell the kinds of memory apart in
	// smaps_rollup.
	unsupported bool
	// pending is the walk that a pass did not wait for to its end; nil: none. There is at most
	// one, so that processes that hang cost one thread, however many they are.
	pending *pageWalk
	// scratch is that of the walks; nil while one is pending, which has it.
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
	// sumSwapped is what the family's processes had in swap together, shared pages counted several
	// times.
	sumSwapped int64
	// used: a pass since begin has asked for it.
	used bool
}

// proportional is the memory of some processes, each page divided by the number of processes that
// share it, in bytes.
type proportional struct {
	// bytes is anonymous and shared memory, in RAM and in swap; swapped is the part in swap. lazy
	// is the part that was given back with MADV_FREE and is still there, undivided.
	bytes, swapped, lazy int64
}

// begin starts a pass that comes so long after the last; 0: the first.
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

// end forgets families that are gone.
func (s *shares) end() {
	for key, of := range s.known {
		if !of.used {
			delete(s.known, key)
		}
		of.used = false
	}
}

// familyMemory returns what a family holds, and the certain part of it. They differ if the family
// may share memory and the amount is not known: then they are the sum, and what its largest
// process has.
func (m *Meter) familyMemory(key shareKey, kin *family) treeUse {
	s := &m.tracker.shares
	// Shared memory can be mapped several times in one process: a Java heap of ZGC is.
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
	case alone && double <= worthSharing: // it only may have given memory back
		use = treeUse{held: kin.sum, unreclaimable: kin.sum, swapped: kin.swapped}
	case known:
		bytes := min(of.bytes, kin.sum)
		// What went to swap since counts as this family's alone: then what is available is too
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

// look returns what is known of a family, and whether its page tables were walked for that now.
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

// without leaves out of what a family holds what a walk found to be given back, as far as the
// machine still has so much of that.
func (s *shares) without(of *share, use treeUse) treeUse {
	use.lazy = min(of.lazy, s.lazyLeft, use.unreclaimable-use.swapped)
	use.unreclaimable -= use.lazy
	s.lazyLeft -= use.lazy
	return use
}

// touchedAgain counts what the processes in an engine's cgroup have written to again after they had
// given it back with MADV_FREE. Such pages stay on the list of file pages until the kernel looks
// for memory there, so that the lists of anonymous pages miss them. Page tables tell.
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
		return // the lists are all that is known
	}
	given := min(e.lazy, of.lazy)
	usage.UnreclaimableBytes = cgroupfs.Add(usage.UnreclaimableBytes, e.lazy-given)
	if !looked { // it may have given back more since
		usage.UnsureBytes = e.lazy - given
	}
	e.lazy = given
}
