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
	// source is for display: "cgroup /a/b memory.max".
	source string
	at     cgroupfs.Place
}

func capped(at cgroupfs.Place, file string, amount int64) limit {
	return limit{amount: amount, source: fmt.Sprintf("cgroup %s %s", at.Cgroup(), file), at: at}
}

// locate finds the cgroup whose limits apply for a controller: Options.Cgroup, or this process's
// cgroup. False: the machine has no such controller, or no cgroups at all.
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
		// Without a mount of the hierarchy, its limits are unknown.
		return cgroupfs.Place{}, false, nil
	}
	return at, err == nil, err
}

// nearest finds the cgroup of the options. It must exist for memory, unless orAbove is set. With
// version 1 it may be missing for other controllers; its nearest visible ancestor then counts.
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

// memoryLimits returns all limits on the path. Version 2's memory.high counts like memory.max:
// above it the kernel throttles processes until they free memory, so nobody can rely on that
// memory. A malformed limit is left out.
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
		// The lowest limit of all, including ancestors that a container's mount hides. The usage of
		// those is hidden, too, so the outermost visible cgroup's usage has to represent it.
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

// cpuLimits returns all limits on the path: the quotas of every level, and the set of processors,
// which the kernel has already reduced to that of the ancestors.
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
	// In version 2 the controller may be off at this level and above: then the nearest ancestor's
	// set counts.
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

// quota reads one level's share of CPU time, with the name of the file.
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

// lowerThan returns the limits below the machine's own figure; the others have no effect.
func lowerThan(machine int64, limits []limit) []limit {
	return slices.DeleteFunc(limits, func(l limit) bool { return l.amount >= machine })
}

// lowest returns the minimum of the machine's figure and the limits, and its origin.
func lowest(machine int64, limits []limit) (int64, string) {
	amount, source := machine, "host"
	for _, limit := range limits {
		if limit.amount < amount {
			amount, source = limit.amount, limit.source
		}
	}
	return amount, source
}
