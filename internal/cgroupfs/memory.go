package cgroupfs

import (
	"bytes"
	"fmt"
)

// MemoryStat holds the used figures of a cgroup's memory.stat, in bytes, children included.
type MemoryStat struct {
	// File is page cache that the kernel can drop or write back: the lists of active and inactive
	// file pages. Pages of tmpfs and shared memory are on the lists of anonymous pages; locked
	// pages are on the list of unevictable pages.
	File int64
	// Pinned is anonymous, shared and locked memory.
	Pinned int64
	// Kernel is kernel memory of the cgroup that cannot be reclaimed: stacks, page tables, sockets,
	// … Slab is the reclaimable kernel memory (caches of names and inodes). Version 1 has neither
	// figure: both are 0.
	Kernel, Slab int64
	// Swapped is version 1's figure of memory in swap; version 2 has a separate file for it.
	// SwapCached is the part of swapped memory that is also in RAM and counts as pinned.
	Swapped, SwapCached int64
	// Shared is the part of Pinned in memory files: tmpfs, memfd, System V, mapped or not.
	Shared int64
	// Lazy is the part of File that is not page cache: anonymous memory that processes have
	// released with MADV_FREE and that the kernel has not reclaimed yet. A write to it makes it a
	// process's own again.
	Lazy int64
	// Mapped is the part of File that processes have mapped.
	Mapped int64
	// Huge is memory in huge pages. The kernel charges it only if the file system was mounted with
	// memory_hugetlb_accounting.
	Huge int64
	// Limit is version 1's hierarchical_memory_limit: the lowest limit of all ancestors, also of
	// those that no mount shows. 0 means none.
	Limit int64
}

// memoryStatLines adds up the lines of a memory.stat.
type memoryStatLines struct {
	MemoryStat

	// lists is the number of the five page lists that were read.
	lists int
	// total is all kernel memory; the kernel has it since Linux 5.18 (haveTotal). parts is the sum
	// of the parts that older kernels have. compressed is the part that holds zswap's pages, which
	// count as swapped already.
	total, parts, compressed int64
	haveTotal                bool
	// cache is page cache plus shared memory; haveCache is set if it was read.
	cache     int64
	haveCache bool
}

// line returns the field for the figure of a line; nil if there is none.
func (l *memoryStatLines) line(name string) *int64 {
	switch name {
	case "inactive_file", "active_file":
		l.lists++
		return &l.File
	case "inactive_anon", "active_anon", "unevictable":
		l.lists++
		return &l.Pinned
	case hierarchicalLimit:
		return &l.Limit
	case "kernel":
		l.haveTotal = true
		return &l.total
	case "kernel_stack", "pagetables", "sec_pagetables", "percpu", "vmalloc", "slab_unreclaimable":
		return &l.parts
	case "sock":
		return &l.Kernel
	case "slab_reclaimable":
		return &l.Slab
	case "zswap":
		return &l.compressed
	case "swap":
		return &l.Swapped
	case "swapcached":
		return &l.SwapCached
	case "shmem":
		return &l.Shared
	case "cache", "file": // of version 1, and of version 2
		l.haveCache = true
		return &l.cache
	case "mapped_file", "file_mapped":
		return &l.Mapped
	case "hugetlb":
		return &l.Huge
	default:
		return nil
	}
}

// hierarchicalLimit is the only used line of version 1 without the prefix "total_".
const hierarchicalLimit = "hierarchical_memory_limit"

// ParseMemoryStat parses memory.stat of either version. It fails if the page lists are missing:
// without them, reclaimable memory is unknown.
func ParseMemoryStat(data []byte, v1 bool) (MemoryStat, error) {
	var lines memoryStatLines
	prefix := []byte("total_")
	for line := range bytes.Lines(data) {
		name, value, found := bytes.Cut(bytes.TrimSpace(line), []byte(" "))
		if !found {
			if len(name) == 0 {
				continue
			}
			return MemoryStat{}, fmt.Errorf("%w memory.stat line %q", ErrMalformed, line)
		}
		if v1 && string(name) != hierarchicalLimit {
			// In version 1, figures without the prefix exclude the cgroup's children.
			if name, found = bytes.CutPrefix(name, prefix); !found {
				continue
			}
		}
		to := lines.line(string(name))
		if to == nil {
			continue
		}
		quantity, err := Number(value)
		if err != nil {
			return MemoryStat{}, fmt.Errorf("memory.stat %s: %w", name, err)
		}
		*to = Add(*to, quantity)
	}
	if lines.lists != 5 {
		return MemoryStat{}, fmt.Errorf("%w memory.stat: %d of 5 page lists", ErrMalformed, lines.lists)
	}
	if lines.Limit >= UnlimitedV1 {
		lines.Limit = 0
	}
	if lines.haveTotal {
		lines.parts = max(0, lines.total-lines.Slab-lines.compressed)
	}
	lines.Kernel = Add(lines.Kernel, lines.parts)
	if lines.haveCache {
		// Pages that MADV_FREE releases go to the list of inactive file pages, but they are no page
		// cache. The swap cache is in neither figure.
		lines.Lazy = min(lines.File, max(0, Add(lines.File, lines.Shared)-lines.cache))
	}
	return lines.MemoryStat, nil
}

// Unreclaimable returns the memory that the kernel cannot reclaim without swap. The counters lag a
// little behind the charge, so it errs low.
func (s MemoryStat) Unreclaimable() int64 { return Add(s.Pinned, s.Kernel) }

// Held returns the part of the usage that is not known to be reclaimable. It errs high.
func (s MemoryStat) Held(usage int64) int64 { return max(0, usage-Add(s.File, s.Slab)) }
