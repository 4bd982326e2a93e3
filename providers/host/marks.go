package host

import (
	"errors"
	"path/filepath"
	"time"

	"github.com/bursar/bursar/internal/cgroupfs"
)

// Marks are the kernel's totals about an engine's cgroup at the end of the engine. A field of 0 is
// unknown.
type Marks struct {
	// MostBytes is the highest memory charge, including page cache. CacheBytes is the part of the
	// current charge that the kernel can reclaim. MappedBytes is the part of CacheBytes that
	// processes have mapped.
	MostBytes, CacheBytes, MappedBytes int64
	// CPUTime is the processor time of all processes that were in the cgroup.
	CPUTime time.Duration
	// Moved: the engine ran before it was moved to the cgroup, and the marks exclude its use until
	// then.
	Moved bool
	// Inside tells whether a process of the engine lives in the cgroup now.
	Inside Occupancy
}

// Occupancy tells whether a cgroup contains a live process.
type Occupancy uint8

// The values.
const (
	OccupancyUnknown Occupancy = iota
	Empty
	Occupied
)

// Marks reads the marks of an engine's own cgroup. The zero value: it has none, or the cgroup is
// gone. It does not read a cgroup that the caller did not create, because others may have used it
// before. Marks may be called at any time from any goroutine.
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

// readMemoryMarks reads the memory marks of a cgroup. A high-water mark is useless without
// memory.stat.
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
		// Version 1 does not show the reclaimable part of kernel memory. After the end of the
		// processes it is nearly all of it.
		if kernel, err := s.readNumber(filepath.Join(at.Directory(), "memory.kmem.usage_in_bytes")); err == nil && kernel < cgroupfs.UnlimitedV1 {
			cache = cgroupfs.Add(cache, kernel)
		}
	}
	to.MostBytes, to.CacheBytes, to.MappedBytes = max(0, most-stat.Huge), cache, stat.Mapped
}

// readMark reads the highest charge of a cgroup in bytes; 0 if the kernel does not record it.
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

// occupancy reports whether a live process other than the engine's reaper is in a cgroup or below
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
