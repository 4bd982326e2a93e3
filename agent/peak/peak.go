// Package peak computes the peak of an engine's memory. The agent measures at ticks, and misses a
// spike between two of them. The kernel's marks miss no spike. But they count page cache, too, or
// one process alone. Both together give the peak to a few percent.
//
// The package computes, and does nothing else.
package peak

import (
	"time"

	"github.com/bursar/bursar/internal/cgroupfs"
)

// Source says where a peak comes from. The numbers are those of the contract.
type Source uint8

// The sources.
const (
	Unknown Source = iota
	Ticks          // the measurements alone
	Kernel         // the kernel's marks
	Limit          // the limit at which the engine was killed
)

// Seen has the results of an engine's measurements. The zero value has none.
type Seen struct {
	// Bytes is the highest amount of memory that the kernel could not take back, CacheBytes of page
	// cache, and MappedBytes of the files that one process had mapped.
	Bytes, CacheBytes, MappedBytes int64
	// Processes is the highest number of processes that two measurements in a row found, or the
	// number of the only measurement. A short command that one measurement finds does not count.
	Processes int
	// HighestBytes is the kernel's mark of the largest process at the last measurement that found
	// one: the highest amount of RAM that it ever had, mapped files included. MarkBytes is the mark
	// of the engine's cgroup just before. 0: not known.
	HighestBytes, MarkBytes int64

	// last is the number of processes at the last measurement. repeated says that two measurements
	// found some.
	last     int
	repeated bool
}

// Add adds a measurement. Its Bytes are the highest amount since the measurement before.
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
	if other.HighestBytes > 0 {
		s.HighestBytes, s.MarkBytes = max(s.HighestBytes, other.HighestBytes), other.MarkBytes
	}
}

// Marks are the kernel's figures at the end of an engine. 0 means that there is no figure.
type Marks struct {
	// CgroupBytes is the highest charge of its cgroup, page cache included. CacheBytes is the part
	// of the charge at the end that the kernel can take back, and MappedBytes the mapped part of
	// CacheBytes. Partial says that the engine ran before the agent moved it to the cgroup.
	CgroupBytes, CacheBytes, MappedBytes int64
	Partial                              bool
	// ProcessBytes is the highest amount of RAM, mapped files included, of its main process or of
	// the largest process that the main process has waited for.
	ProcessBytes int64
	// LimitBytes is the limit at which the kernel killed the engine or one of its processes.
	LimitBytes int64
	// CPUTime is all processor time in the kernel's figures.
	CPUTime time.Duration
}

// nearly bounds the difference of a peak and the mark of its cgroup. If the difference is at most
// 1/nearly of the peak, the mark confirms the peak.
const nearly = 20

// Of returns the peak of an engine in bytes: of the memory that the kernel could not take back. It
// assumes that a mark has at most as much page cache in it as a measurement ever found. The source
// is Unknown if there is neither a measurement nor a mark.
func Of(seen Seen, marks Marks) (bytes int64, source Source) {
	if marks.LimitBytes > 0 && marks.LimitBytes >= seen.Bytes {
		return marks.LimitBytes, Limit
	}
	if marks.ProcessBytes == 0 && marks.CgroupBytes > 0 && marks.CgroupBytes <= seen.MarkBytes {
		// The mark is older than the last measurement, and so is what the processes had then.
		marks.ProcessBytes = seen.HighestBytes
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
			// Files that came and went between two measurements must not count. No process had
			// more memory than the largest. The kernel adds some for it, such as page tables.
			pinned = min(pinned, times(cgroupfs.Add(process, process/32), max(1, seen.Processes)))
		}
		if pinned >= bytes {
			source = Kernel
		}
		bytes = max(bytes, pinned)
		if !marks.Partial {
			bytes = min(bytes, max(charged, seen.Bytes))
			if charged-bytes <= bytes/nearly { // a higher peak had no room
				source = Kernel
			}
		}
	}
	return bytes, source
}

// ofProcess is the mark of the largest process without its mapped files. It takes the highest
// amount of them that a measurement found or its cgroup was charged with.
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

// times multiplies a size of 0 or more by a small number, within the range of int64.
func times(bytes int64, count int) int64 {
	var sum int64
	for range min(count, 1<<10) {
		sum = cgroupfs.Add(sum, bytes)
	}
	return sum
}
