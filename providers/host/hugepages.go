package host

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/bursar/bursar/internal/cgroupfs"
)

// Memory that is reserved for huge pages (HugeTLB) is not available to engines. The kernel gives it
// only to processes that request huge pages explicitly, even when other memory is short. So this
// package excludes it from the machine's memory, and does not charge engines for it. Neither the
// resident set nor a cgroup's memory controller counts it, except if the file system was mounted
// with memory_hugetlb_accounting (see cgroupfs.ParseMemoryStat). Transparent huge pages are
// ordinary memory.

// hugePages is the total of the pools of all sizes, in bytes.
type hugePages struct {
	total int64
	// free is neither in use nor reserved for a process that has mapped it but not touched it yet.
	free int64
}

// readHugePages adds up the pools of all sizes. fs.ErrNotExist: the kernel has none, or hides them
// here.
func (m *Meter) readHugePages(s *scratch) (hugePages, error) {
	directory := filepath.Join(m.options.Root, "sys", "kernel", "mm", "hugepages")
	sizes, err := os.ReadDir(directory)
	if err != nil {
		return hugePages{}, fmt.Errorf("huge pages: %w", err)
	}
	var sum hugePages
	for _, entry := range sizes {
		text, found := strings.CutPrefix(strings.TrimSuffix(entry.Name(), "kB"), "hugepages-")
		if !found {
			continue
		}
		size, err := strconv.ParseInt(text, 10, 32)
		if err != nil {
			return hugePages{}, fmt.Errorf("%w size of huge pages %q", errMalformed, entry.Name())
		}
		pool, err := s.readPool(filepath.Join(directory, entry.Name()), size<<10)
		if err != nil {
			return hugePages{}, err
		}
		sum.total, sum.free = cgroupfs.Add(sum.total, pool.total), cgroupfs.Add(sum.free, pool.free)
	}
	return sum, nil
}

// readPool reads the pool of one size; size is in bytes.
func (s *scratch) readPool(directory string, size int64) (hugePages, error) {
	var counts [3]int64
	for i, name := range [...]string{"nr_hugepages", "free_hugepages", "resv_hugepages"} {
		var err error
		if counts[i], err = s.readNumber(filepath.Join(directory, name)); err != nil {
			return hugePages{}, err
		}
		if counts[0] == 0 {
			return hugePages{}, nil
		}
		if counts[i] > 1<<62/size {
			return hugePages{}, fmt.Errorf("%w number of huge pages in %s: %d", errMalformed, directory, counts[i])
		}
	}
	return hugePages{total: counts[0] * size, free: max(0, counts[1]-counts[2]) * size}, nil
}

// machineMemory measures the machine's memory without huge pages. It adds odd figures to degraded.
// It fails if the size of the memory is unknown.
func (m *Meter) machineMemory(s *scratch, degraded *degradations) (memoryFacts, error) {
	facts, err := m.memory(s, degraded)
	if err != nil {
		return memoryFacts{}, err
	}
	known, err := m.hierarchies(s)
	// a container's own meminfo may hide swap
	m.swapless.Store(facts.swapTotal != nil && *facts.swapTotal == 0 && !known.ownMeminfo)
	if err == nil && known.ownMeminfo {
		// A container's own meminfo (lxcfs): its memory is the container's limit, which includes
		// neither huge pages nor the machine's caches. Its lines on huge pages still describe the
		// machine.
		facts.huge = &hugePages{}
		return facts, nil
	}
	pools, err := m.readHugePages(s)
	switch {
	case err == nil && pools.total == facts.total:
		return memoryFacts{}, fmt.Errorf("meminfo: %w: all %d bytes of memory are for huge pages", errNoFigures, facts.total)
	case err == nil && pools.total > facts.total:
		degraded.add(SourceHugePages, fmt.Errorf("%w: of %d bytes of memory, %d are for huge pages: left out", errNoFigures, facts.total, pools.total))
		facts.huge = nil
	case err == nil:
		facts.huge = &pools // meminfo shows only one size
	case !cgroupfs.Absent(err):
		degraded.add(SourceHugePages, err)
	default:
		degraded.add(SourceHugePages, facts.oddHuge)
	}
	if facts.huge != nil && facts.huge.total < facts.total {
		facts.total -= facts.huge.total
	}
	if facts.available != nil {
		available := min(*facts.available, facts.total)
		facts.available = &available
	}
	m.correct(s, &facts, degraded)
	return facts, nil
}
