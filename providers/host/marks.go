package host

import (
	"errors"
	"path/filepath"
	"time"

	"github.com/bursar/bursar/internal/cgroupfs"
)

// Marks are what the kernel says at the end of an engine of the whole time in which the engine had
// its cgroup. A field of 0 is not known.
type Marks struct {
	// MostBytes is the most memory that was charged at a time, page cache included, and CacheBytes
	// the part of what is charged now that the kernel can take back. MappedBytes is the part of
	// that which processes have mapped.
	MostBytes, CacheBytes, MappedBytes int64
	// CPUTime is the processor time of all processes that were in it.
	CPUTime time.Duration
	// Moved: the engine ran before it was moved there, and what it used by then is not in the
	// marks.
	Moved bool
	// Inside says whether a process of the engine lives in the cgroup now.
	Inside Occupancy
}

// Occupancy says whether a process lives somewhere.
type Occupancy uint8

// The answers.
const (
	OccupancyUnknown Occupancy = iota
	Empty
	Occupied
)

// Marks reads the marks of an engine's own cgroup. The zero value: it has none, or the cgroup is
// gone. A cgroup that the caller did not make is not read: others may have been in it before. Marks
// may be called at any time from any goroutine.
func (m *Meter) Marks(e Engine) Marks {
	if e.Cgroup == "" || e.Cgroup == "/" || e.Given {
		return Marks{}
	}
	var s scratch
	known, err := m.hierarchies(&s)
	if err != nil {
		return Marks{}
	}
	got := Marks{Moved: e.Moved}
	if at, err := known.Find(known.MemoryController(), e.Cgroup); err == nil {
		s.readMemoryMarks(at, &got)
		got.Inside = m.occupancy(&s, at, e.Reaper)
	}
	for _, controller := range [...]string{cgroupfs.Unified, "cpuacct"} {
		at, err := known.Find(controller, e.Cgroup)
		if err != nil {
			continue
		}
		if ran, err := s.readCPU(at); err == nil {
			got.CPUTime = time.Duration(min(ran, 1<<53)) * time.Microsecond
			break
		}
	}
	return got
}

// readMemoryMarks fills in what a cgroup tells of its memory; a mark without the lists of pages
// says nothing.
func (s *scratch) readMemoryMarks(at cgroupfs.Place, to *Marks) {
	most := s.readMark(at)
	if most == 0 {
		return
	}
	stat, err := s.readMemoryStat(at)
	if err != nil {
		return
	}
	cache := cgroupfs.Add(stat.File, stat.Slab)
	if at.V1 {
		// Version 1 does not tell which part of the kernel's own memory it can take back. After the
		// end of the processes it is nearly all.
		if kernel, err := s.readNumber(filepath.Join(at.Directory(), "memory.kmem.usage_in_bytes")); err == nil && kernel < cgroupfs.UnlimitedV1 {
			cache = cgroupfs.Add(cache, kernel)
		}
	}
	to.MostBytes, to.CacheBytes, to.MappedBytes = max(0, most-stat.Huge), cache, stat.Mapped
}

// readMark reads the highest charge of a cgroup in bytes. 0: the kernel does not tell.
func (s *scratch) readMark(at cgroupfs.Place) int64 {
	file := "memory.peak" // since Linux 5.19
	if at.V1 {
		file = "memory.max_usage_in_bytes"
	}
	most, err := s.readNumber(filepath.Join(at.Directory(), file))
	if err != nil || most >= cgroupfs.UnlimitedV1 {
		return 0
	}
	return most
}

// occupancy reports whether a process that is not the engine's reaper lives in a cgroup, or below
// it.
func (m *Meter) occupancy(s *scratch, at cgroupfs.Place, reaper Reaper) Occupancy {
	pids, all, err := newDescent(s, time.Now, descentTime).Members(at.Directory(), nil)
	if err != nil {
		return OccupancyUnknown
	}
	for _, pid := range pids {
		got, err := m.readStat(s, pid)
		switch {
		case errors.Is(err, ErrNoProcess):
		case err != nil, !got.ended() && (Reaper{pid, got.start}) != reaper:
			return Occupied
		}
	}
	if !all {
		return OccupancyUnknown
	}
	return Empty
}
