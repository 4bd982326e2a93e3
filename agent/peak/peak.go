// Package peak says what the most memory was that an engine used. Measurements are made at ticks,
// and miss what comes and goes between two of them. The kernel's marks miss nothing, but they count
// page cache too, or one process alone. Together they say it to a few percent.
//
// The package computes, and does nothing else.
package peak

import (
	"time"

	"github.com/bursar/bursar/internal/cgroupfs"
)

// Source is how a peak is known; the numbers are those of the contract.
type Source uint8

// The sources.
const (
	Unknown Source = iota
	Ticks          // the measurements alone
	Kernel         // the kernel's marks
	Limit          // the limit at which the engine was killed
)

// Seen is what the measurements of an engine have shown. The zero value: there was none.
type Seen struct {
	// Bytes is the most that the kernel could not take back; CacheBytes the most page cache;
	// MappedBytes the most files that a process had mapped.
	Bytes, CacheBytes, MappedBytes int64
	// Processes is the most that two measurements in turn have found. Until there are two it is
	// what the first has found. A process that was there at one measurement alone, such as a short
	// command, does not count.
	Processes int

	// last is what the last measurement has found; repeated: two have.
	last     int
	repeated bool
}

// Add takes a measurement. Its bytes are the most that the kernel could not take back since the
// measurement before.
func (s *Seen) Add(other Seen) {
	s.Bytes = max(s.Bytes, other.Bytes)
	s.CacheBytes = max(s.CacheBytes, other.CacheBytes)
	s.MappedBytes = max(s.MappedBytes, other.MappedBytes)
	switch {
	case s.repeated:
		s.Processes = max(s.Processes, min(s.last, other.Processes))
	case s.last > 0:
		s.Processes, s.repeated = min(s.last, other.Processes), true
	default:
		s.Processes = max(s.Processes, other.Processes)
	}
	s.last = other.Processes
}

// Marks are what the kernel says at the end of an engine; 0: it says nothing.
type Marks struct {
	// CgroupBytes is the most that was charged to its cgroup, page cache included. CacheBytes is
	// the part that the kernel can take back of what is charged at the end, MappedBytes the part of
	// that which was mapped. Partial: the engine ran before it was moved there.
	CgroupBytes, CacheBytes, MappedBytes int64
	Partial                              bool
	// ProcessBytes is the most that its main process, or the largest of those that this one has
	// waited for, had in RAM, mapped files included.
	ProcessBytes int64
	// LimitBytes is the limit at which the engine, or one of its processes, was killed.
	LimitBytes int64
	// CPUTime is all processor time that the kernel tells of.
	CPUTime time.Duration
}

// nearly is the part of a peak, 1/20, by which the mark of its cgroup may be larger and confirm it.
const nearly = 20

// Of is the most memory that an engine used at a time and that the kernel could not take back, in
// bytes. At the time of a mark there was at most as much page cache as was ever seen. Unknown:
// there is neither a measurement nor a mark.
func Of(seen Seen, marks Marks) (bytes int64, source Source) {
	if marks.LimitBytes > 0 && marks.LimitBytes >= seen.Bytes {
		return marks.LimitBytes, Limit
	}
	bytes = seen.Bytes
	if bytes > 0 || seen.Processes > 0 {
		source = Ticks
	}
	if process := marks.ofProcess(seen); process > 0 {
		if process >= bytes || seen.Processes <= 1 {
			source = Kernel
		}
		bytes = max(bytes, process)
	}
	if charged := marks.CgroupBytes; charged > 0 {
		pinned := max(0, charged-max(seen.CacheBytes, marks.CacheBytes))
		if process := marks.ofProcess(seen); process > 0 {
			// Files that came and went between two measurements must not count: no process had
			// more than the largest, and the kernel has some more for it, such as page tables.
			pinned = min(pinned, times(cgroupfs.Add(process, process/32), max(1, seen.Processes)))
		}
		if pinned >= bytes {
			source = Kernel
		}
		bytes = max(bytes, pinned)
		if !marks.Partial {
			bytes = min(bytes, max(charged, seen.Bytes))
			if charged-bytes <= bytes/nearly { // there was no room for more
				source = Kernel
			}
		}
	}
	return bytes, source
}

// ofProcess is what the mark of the largest process says without the files that it had mapped: as
// many as were ever seen, or are charged to its cgroup.
func (m Marks) ofProcess(seen Seen) int64 {
	files := max(m.MappedBytes, seen.MappedBytes)
	if m.CgroupBytes == 0 {
		files = seen.CacheBytes
	}
	most := max(0, m.ProcessBytes-files)
	if m.CgroupBytes > 0 && !m.Partial {
		most = min(most, m.CgroupBytes)
	}
	return most
}

// times multiplies a size that is not negative with a small number, within the range of int64.
func times(bytes int64, count int) int64 {
	var sum int64
	for range min(count, 1<<10) {
		sum = cgroupfs.Add(sum, bytes)
	}
	return sum
}
