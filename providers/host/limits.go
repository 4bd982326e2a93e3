package host

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path"
	"path/filepath"
	"slices"

	"github.com/bursar/bursar/internal/cgroupfs"
)

// limit is one cgroup's cap on memory (bytes) or CPU (thousandths of a core).
type limit struct {
	amount int64
	// source is for people: "cgroup /a/b memory.max".
	source string
	at     cgroupfs.Place
}

func capped(at cgroupfs.Place, file string, amount int64) limit {
	return limit{amount: amount, source: fmt.Sprintf("cgroup %s %s", at.Cgroup(), file), at: at}
}

// locate finds the cgroup whose limits count for a controller: Options.Cgroup, or that of this
// process. False: the machine has no such controller, or no cgroups at all.
func (m *Meter) locate(s *scratch, controller string) (cgroupfs.Place, bool, error) {
	known, err := m.hierarchies(s)
	if err != nil {
		return cgroupfs.Place{}, false, err
	}
	if m.options.Cgroup != "" {
		return known.nearest(controller, m.options.Cgroup, m.options.CgroupOrAbove)
	}
	if !known.Has(controller) {
		controller = cgroupfs.Unified
	}
	paths, err := m.cgroupPaths(s, "self")
	if err != nil && !cgroupfs.Absent(err) { // A kernel without cgroups has no such file.
		return cgroupfs.Place{}, false, err
	}
	name, found := paths[controller]
	if !found {
		return cgroupfs.Place{}, false, nil
	}
	at, err := known.Own(controller, name)
	if errors.Is(err, fs.ErrNotExist) {
		// A hierarchy without a mount: nothing can be known of its limits.
		return cgroupfs.Place{}, false, nil
	}
	return at, err == nil, err
}

// nearest is find for the cgroup of the options: it must have a place for memory, unless orAbove;
// with version 1 other controllers may lack it. Then its nearest ancestor that a mount shows
// counts.
func (h hierarchies) nearest(controller, name string, orAbove bool) (cgroupfs.Place, bool, error) {
	hierarchy := controller
	if !h.Has(controller) {
		hierarchy = cgroupfs.Unified
	}
	for {
		at, err := h.Find(hierarchy, name)
		if err == nil || !errors.Is(err, fs.ErrNotExist) || controller == cgroupfs.Memory && !orAbove {
			return at, err == nil, err
		}
		if name == "/" {
			at, err = h.Own(hierarchy, name)
			return at, err == nil && orAbove, nil
		}
		name = path.Dir(name)
	}
}

// memoryLimits are all limits on the path. Version 2's memory.high counts as much as memory.max:
// above it the kernel slows processes down until they give memory back, so that it cannot be
// promised to anybody. A limit that makes no sense is left out.
func (m *Meter) memoryLimits(s *scratch, degraded *degradations) ([]limit, error) {
	leaf, found, err := m.locate(s, "memory")
	if err != nil || !found {
		return nil, err
	}
	files := []string{"memory.max", "memory.high"}
	if leaf.V1 {
		files = []string{"memory.limit_in_bytes"}
	}
	var limits []limit
	levels := leaf.Ancestry()
	for _, at := range levels {
		for _, file := range files {
			data, err := s.optional(filepath.Join(at.Directory(), file))
			if err != nil {
				return nil, err
			}
			if data == nil {
				continue // A root cgroup has no limit; below it, the controller may be off.
			}
			amount, isLimit, err := cgroupfs.ParseMemoryMax(data)
			if err != nil {
				degraded.add(SourceMemoryCgroup, fmt.Errorf("cgroup %s %s: %w: left out", at.Cgroup(), file, err))
			}
			if isLimit {
				limits = append(limits, capped(at, file, amount))
			}
		}
	}
	if leaf.V1 {
		// The lowest limit of all, also of ancestors that a container's mount does not show. Their
		// usage is not shown either: that of the outermost cgroup that is has to stand for it.
		stat, err := s.readMemoryStat(leaf)
		if err != nil && !errors.Is(err, errMalformed) {
			return nil, err
		}
		degraded.add(SourceMemoryCgroup, err)
		visible, _ := lowest(math.MaxInt64, limits)
		if stat.Limit > 0 && stat.Limit < visible {
			limits = append(limits, capped(levels[len(levels)-1], "hierarchical_memory_limit", stat.Limit))
		}
	}
	return limits, nil
}

// cpuLimits are all limits on the path: quotas of every level, and the set of processors, which
// the kernel has already reduced to what the ancestors leave.
func (m *Meter) cpuLimits(s *scratch, degraded *degradations) ([]limit, error) {
	limits, err := m.quotas(s, degraded)
	if err != nil {
		return nil, err
	}
	at, found, err := m.locate(s, "cpuset")
	if err != nil || !found {
		return limits, err
	}
	files := []string{"cpuset.cpus.effective"}
	if at.V1 {
		files = []string{"cpuset.effective_cpus", "cpuset.cpus"} // The first one since Linux 3.17.
	}
	// In version 2 the controller may be off here and on above: then the nearest ancestor's set
	// counts.
	for _, level := range at.Ancestry() {
		for _, file := range files {
			data, err := s.optional(filepath.Join(level.Directory(), file))
			if err != nil {
				return nil, err
			}
			if data == nil {
				continue
			}
			processors, err := parseCPUList(data)
			if err != nil {
				degraded.add(SourceCPUCgroup, fmt.Errorf("cgroup %s %s: %w: left out", level.Cgroup(), file, err))
				continue
			}
			if processors > 0 {
				limits = append(limits, capped(level, file, processors*1000))
			}
			return limits, nil
		}
	}
	return limits, nil
}

func (m *Meter) quotas(s *scratch, degraded *degradations) ([]limit, error) {
	leaf, found, err := m.locate(s, "cpu")
	if err != nil || !found {
		return nil, err
	}
	var limits []limit
	for _, at := range leaf.Ancestry() {
		amount, isLimit, file, err := s.quota(at)
		if errors.Is(err, errMalformed) {
			degraded.add(SourceCPUCgroup, fmt.Errorf("cgroup %s %s: %w: left out", at.Cgroup(), file, err))
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("cgroup %s %s: %w", at.Cgroup(), file, err)
		}
		if isLimit {
			limits = append(limits, capped(at, file, amount))
		}
	}
	return limits, nil
}

// quota reads one level's share of CPU time, and says from which file.
func (s *scratch) quota(at cgroupfs.Place) (amount int64, isLimit bool, file string, err error) {
	if !at.V1 {
		file = "cpu.max"
		data, err := s.optional(filepath.Join(at.Directory(), file))
		if err != nil || data == nil {
			return 0, false, file, err
		}
		amount, isLimit, err = cgroupfs.ParseCPUMax(data)
		return amount, isLimit, file, err
	}
	file = "cpu.cfs_quota_us"
	data, err := s.optional(filepath.Join(at.Directory(), file))
	if err != nil || data == nil {
		return 0, false, file, err
	}
	quota := append([]byte(nil), data...)
	period, err := s.read(filepath.Join(at.Directory(), "cpu.cfs_period_us"))
	if err != nil {
		return 0, false, file, err
	}
	amount, isLimit, err = cgroupfs.CPUShare(quota, period)
	return amount, isLimit, file, err
}

// lowerThan returns the limits that are lower than the machine's own figure; the others change
// nothing.
func lowerThan(machine int64, limits []limit) []limit {
	return slices.DeleteFunc(limits, func(l limit) bool { return l.amount >= machine })
}

// lowest returns the least of the machine's figure and the limits', and what it is due to.
func lowest(machine int64, limits []limit) (int64, string) {
	amount, source := machine, "host"
	for _, limit := range limits {
		if limit.amount < amount {
			amount, source = limit.amount, limit.source
		}
	}
	return amount, source
}
