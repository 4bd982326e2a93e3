package host

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path/filepath"
	"strconv"
)

// unlimitedV1 and everything above it is version 1's way to say "max": the highest multiple of the page size below 2^63.
const unlimitedV1 = 1 << 60

// number parses a file with a single unsigned number in it. What is above the range of int64 is held at its end.
func number(data []byte) (int64, error) {
	value, err := strconv.ParseUint(string(bytes.TrimSpace(data)), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%w number %q", errMalformed, data)
	}
	return int64(min(value, math.MaxInt64)), nil
}

// readNumber reads such a file.
func (s *scratch) readNumber(file string) (int64, error) {
	data, err := s.read(file)
	if err != nil {
		return 0, err
	}
	value, err := number(data)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", file, err)
	}
	return value, nil
}

// memoryMax parses memory.max or memory.high of version 2, or memory.limit_in_bytes of version 1. Not limited: false.
func memoryMax(data []byte) (int64, bool, error) {
	if string(bytes.TrimSpace(data)) == "max" {
		return 0, false, nil
	}
	bytes, err := number(data)
	return bytes, err == nil && bytes < unlimitedV1, err
}

// memoryStat is what this package uses of a cgroup's memory.stat, in bytes, children included.
type memoryStat struct {
	// file is page cache that can be dropped or written back: the lists of active and inactive file pages. Pages of
	// tmpfs and shared memory are on the lists of anonymous pages, locked ones on the list of unevictable pages.
	file int64
	// pinned is anonymous and shared memory, and what is locked.
	pinned int64
	// kernel is memory of the kernel's that is held for the cgroup and cannot be taken back: stacks, page tables, sockets, …;
	// slab is the part that can be (caches of names and inodes). Version 1 does not tell: both 0.
	kernel, slab int64
	// swapped is version 1's count of what is in swap; version 2 has a file of its own for that. swapCached is the part of what is
	// in swap that is in RAM too, and counted as pinned.
	swapped, swapCached int64
	// shared is the part of pinned that is files in memory: tmpfs, memfd, System V, mapped or not.
	shared int64
	// huge is memory for huge pages, which is charged only where the file system was mounted with memory_hugetlb_accounting.
	huge int64
	// limit is version 1's hierarchical_memory_limit: the lowest limit of all ancestors, also of those that no mount
	// shows. 0: none.
	limit int64
}

// memoryStatLines adds up the lines of a memory.stat.
type memoryStatLines struct {
	memoryStat

	// lists is how many of the five page lists were there.
	lists int
	// total is all of the kernel's memory, haveTotal since Linux 5.18; parts are the parts of it that older kernels tell, and
	// compressed is the part in which zswap keeps what is in swap, and counted as swapped already.
	total, parts, compressed int64
	haveTotal                bool
}

// line returns where the figure of a line belongs; nil: nowhere.
func (l *memoryStatLines) line(name string) *int64 {
	switch name {
	case "inactive_file", "active_file":
		l.lists++
		return &l.file
	case "inactive_anon", "active_anon", "unevictable":
		l.lists++
		return &l.pinned
	case hierarchicalLimit:
		return &l.limit
	case "kernel":
		l.haveTotal = true
		return &l.total
	case "kernel_stack", "pagetables", "sec_pagetables", "percpu", "vmalloc", "slab_unreclaimable":
		return &l.parts
	case "sock":
		return &l.kernel
	case "slab_reclaimable":
		return &l.slab
	case "zswap":
		return &l.compressed
	case "swap":
		return &l.swapped
	case "swapcached":
		return &l.swapCached
	case "shmem":
		return &l.shared
	case "hugetlb":
		return &l.huge
	default:
		return nil
	}
}

// hierarchicalLimit is the one line of version 1 that counts without the prefix "total_".
const hierarchicalLimit = "hierarchical_memory_limit"

// parseMemoryStat parses memory.stat of either version. It fails where the page lists are missing: without them nothing can be
// told about what can be taken back.
func parseMemoryStat(data []byte, v1 bool) (memoryStat, error) {
	var lines memoryStatLines
	prefix := []byte("total_")
	for line := range bytes.Lines(data) {
		name, value, found := bytes.Cut(bytes.TrimSpace(line), []byte(" "))
		if !found {
			if len(name) == 0 {
				continue
			}
			return memoryStat{}, fmt.Errorf("%w memory.stat line %q", errMalformed, line)
		}
		if v1 && string(name) != hierarchicalLimit {
			// Without the prefix version 1 gives the figures of the cgroup without its children.
			if name, found = bytes.CutPrefix(name, prefix); !found {
				continue
			}
		}
		to := lines.line(string(name))
		if to == nil {
			continue
		}
		quantity, err := number(value)
		if err != nil {
			return memoryStat{}, fmt.Errorf("memory.stat %s: %w", name, err)
		}
		*to = add(*to, quantity)
	}
	if lines.lists != 5 {
		return memoryStat{}, fmt.Errorf("%w memory.stat: %d of 5 page lists", errMalformed, lines.lists)
	}
	if lines.limit >= unlimitedV1 {
		lines.limit = 0
	}
	if lines.haveTotal {
		lines.parts = max(0, lines.total-lines.slab-lines.compressed)
	}
	lines.kernel = add(lines.kernel, lines.parts)
	return lines.memoryStat, nil
}

// add is a sum that stays at the end of its range.
func add(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// unreclaimable is what the kernel cannot take back without swapping. The counters lag a little behind the charge, so that it
// errs low.
func (s memoryStat) unreclaimable() int64 { return add(s.pinned, s.kernel) }

// held is the part of the usage that is not known to be reclaimable; it errs high.
func (s memoryStat) held(usage int64) int64 { return max(0, usage-add(s.file, s.slab)) }

// readMemory reads a cgroup's usage and memory.stat.
func (s *scratch) readMemory(at place) (usage int64, stat memoryStat, err error) {
	file := "memory.current"
	if at.v1 {
		file = "memory.usage_in_bytes"
	}
	if usage, err = s.readNumber(filepath.Join(at.directory(), file)); err != nil {
		return 0, memoryStat{}, err
	}
	stat, err = s.readMemoryStat(at)
	return usage, stat, err
}

// readSwapped reads how much of a cgroup's memory is in swap and not in RAM too. Kernels without swap, and cgroups without the
// accounting of it, have none.
func (s *scratch) readSwapped(at place, stat memoryStat) (int64, error) {
	swapped := stat.swapped
	if !at.v1 {
		data, err := s.optional(filepath.Join(at.directory(), "memory.swap.current"))
		if err != nil || data == nil {
			return 0, err
		}
		if swapped, err = number(data); err != nil {
			return 0, fmt.Errorf("cgroup %s memory.swap.current: %w", at.cgroup(), err)
		}
	}
	return max(0, swapped-stat.swapCached), nil
}

func (s *scratch) readMemoryStat(at place) (memoryStat, error) {
	data, err := s.read(filepath.Join(at.directory(), "memory.stat"))
	if err != nil {
		return memoryStat{}, err
	}
	stat, err := parseMemoryStat(data, at.v1)
	if err != nil {
		return memoryStat{}, fmt.Errorf("cgroup %s: %w", at.cgroup(), err)
	}
	return stat, nil
}

// parseCPUMax parses cpu.max of version 2, "max 100000" or "50000 100000", as thousandths of a core. Not limited: false.
func parseCPUMax(data []byte) (int64, bool, error) {
	quota, period, found := bytes.Cut(bytes.TrimSpace(data), []byte(" "))
	if !found {
		return 0, false, fmt.Errorf("%w cpu.max %q", errMalformed, data)
	}
	if string(quota) == "max" {
		return 0, false, nil
	}
	return cpuShare(quota, period)
}

// cpuShare divides a quota by its period, both in microseconds. Version 1 says -1 for "max".
func cpuShare(quota, period []byte) (int64, bool, error) {
	if string(bytes.TrimSpace(quota)) == "-1" {
		return 0, false, nil
	}
	q, err := number(quota)
	if err != nil {
		return 0, false, err
	}
	p, err := number(period)
	if err != nil {
		return 0, false, err
	}
	if p == 0 || q > math.MaxInt64/1000 {
		return 0, false, fmt.Errorf("%w cpu quota %d of %d", errMalformed, q, p)
	}
	return q * 1000 / p, true, nil
}

// parseCPUList counts the processors in a list such as "0-3,7".
func parseCPUList(data []byte) (int64, error) {
	data = bytes.TrimSpace(data)
	if len(data) == 0 {
		return 0, nil
	}
	var count int64
	for part := range bytes.SplitSeq(data, []byte(",")) {
		first, last, isRange := bytes.Cut(part, []byte("-"))
		if !isRange {
			last = first
		}
		low, errLow := strconv.ParseUint(string(first), 10, 20)
		high, errHigh := strconv.ParseUint(string(last), 10, 20)
		if errLow != nil || errHigh != nil || high < low {
			return 0, fmt.Errorf("%w list of processors %q", errMalformed, data)
		}
		count = add(count, int64(high-low+1))
	}
	return count, nil
}

// parseUsageUsec finds usage_usec in cpu.stat of version 2, in microseconds since the cgroup was made.
func parseUsageUsec(data []byte) (int64, error) {
	for line := range bytes.Lines(data) {
		if value, found := bytes.CutPrefix(line, []byte("usage_usec ")); found {
			return number(value)
		}
	}
	return 0, fmt.Errorf("%w cpu.stat: no usage_usec", errMalformed)
}

// readCPU reads how long the processes of a cgroup have run, in microseconds, children included.
func (s *scratch) readCPU(at place) (int64, error) {
	if at.v1 {
		nanoseconds, err := s.readNumber(filepath.Join(at.directory(), "cpuacct.usage"))
		return nanoseconds / 1000, err
	}
	file := filepath.Join(at.directory(), "cpu.stat")
	data, err := s.read(file)
	if err != nil {
		return 0, err
	}
	microseconds, err := parseUsageUsec(data)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", file, err)
	}
	return microseconds, nil
}

// optional reads a file that need not be there: nil where it is not.
func (s *scratch) optional(file string) ([]byte, error) {
	data, err := s.read(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return data, err
}
