package host

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"time"
)

// What several processes share can only be told from their page tables: the kernel divides each page by the number of times it is
// mapped (its "proportional set size" in /proc/PID/smaps_rollup). That walk costs about 10 ms for each GiB (measured, Linux
// 6.18), so it is made only where the double count could be large, and for no more than a small part of the time.

// worthSharing is the double count, in bytes, below which the walk is not made.
const worthSharing = 16 << 20

// sharesPart is the part of one core that the walks may take: the time since the last pass divided by this.
const sharesPart = 64

// firstShares is the time that the walks may take in the first pass.
const firstShares = 100 * time.Millisecond

// shares remembers the outcome of walks.
type shares struct {
	known map[shareKey]*share
	now   func() time.Time
	// budget is the time left for walks. A walk is not broken off: what it takes too long is missing in the next passes.
	budget time.Duration
	begun  bool
	// exhausted: a family was denied its walk in this pass.
	exhausted bool
	// unsupported: the kernel (before 5.4) does not tell the kinds of memory apart in smaps_rollup.
	unsupported bool
}

type shareKey struct {
	engine *engine
	image  image
}

// share is the memory of one family of processes without page cache, each page counted once.
type share struct {
	bytes       int64
	fingerprint uint64
	// used: a pass since begin has asked for it.
	used bool
}

// begin starts a pass that comes so long after the last; 0: the first.
func (s *shares) begin(elapsed time.Duration, now func() time.Time) {
	if s.known == nil {
		s.known = map[shareKey]*share{}
	}
	if elapsed == 0 && !s.begun {
		elapsed = firstShares * sharesPart
	}
	s.now, s.begun, s.exhausted = now, true, false
	s.budget = min(firstShares, s.budget+elapsed/sharesPart)
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

// familyMemory returns what a family holds, and the part of that which is certain. They differ where the family may share
// memory and nobody can tell how much: then the sum, and what its largest process has.
func (m *Meter) familyMemory(key shareKey, kin *family) (held, unreclaimable int64) {
	// Shared memory can be mapped several times in one process: a Java heap of ZGC is.
	if max(kin.sum-kin.largest, kin.shared) <= worthSharing {
		if len(kin.processes) == 1 {
			return kin.sum, kin.sum
		}
		return kin.sum, kin.largest
	}
	s := &m.tracker.shares
	of := s.known[key]
	if of == nil {
		of = &share{}
		s.known[key] = of
	}
	of.used = true
	if !s.unsupported && s.budget > 0 {
		started := s.now()
		bytes, err := m.walk(kin)
		s.budget -= s.now().Sub(started)
		s.unsupported = errors.Is(err, errNoSplit)
		if err == nil {
			of.bytes, of.fingerprint = bytes, kin.fingerprint
			return bytes, min(bytes, kin.sum)
		}
	} else {
		s.exhausted = true
	}
	if of.fingerprint == kin.fingerprint {
		bytes := min(of.bytes, kin.sum)
		return bytes, bytes
	}
	if len(kin.processes) == 1 {
		// Only its shared memory is in doubt.
		return kin.sum, kin.sum - kin.shared
	}
	return kin.sum, kin.largest
}

// walk adds up the family's proportional memory. A process that ended meanwhile has none; one that may not be looked into makes
// the sum worthless.
func (m *Meter) walk(kin *family) (int64, error) {
	var sum int64
	var read int
	for _, pid := range kin.processes {
		data, err := m.tracker.scratch.read(m.file(pid, "smaps_rollup"))
		if absent(err) {
			continue
		}
		if err != nil {
			return 0, err
		}
		bytes, err := parseProportional(data)
		if err != nil {
			return 0, fmt.Errorf("process %d: %w", pid, err)
		}
		sum = add(sum, bytes)
		read++
	}
	if read == 0 {
		return 0, fs.ErrNotExist // All ended, or a kernel before 4.14.
	}
	return sum, nil
}

// parseProportional finds the proportional anonymous and shared memory in /proc/PID/smaps_rollup, in bytes.
func parseProportional(data []byte) (int64, error) {
	var sum int64
	found := 0
	for line := range bytes.Lines(data) {
		name, value, _ := bytes.Cut(line, []byte(":"))
		if string(name) != "Pss_Anon" && string(name) != "Pss_Shmem" {
			continue
		}
		bytes, err := kilobytes(value)
		if err != nil {
			return 0, fmt.Errorf("%w smaps_rollup line %q", errMalformed, line)
		}
		sum = add(sum, bytes)
		found++
	}
	if found != 2 {
		return 0, errNoSplit
	}
	return sum, nil
}
