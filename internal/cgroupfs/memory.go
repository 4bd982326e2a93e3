package cgroupfs

import (
	"bytes"
	"fmt"
)

// MemoryStat is what is used of a cgroup's memory.stat, in bytes, children included.
type MemoryStat struct {
	// File is page cache that can be dropped or written back: the lists of active and inactive
	// file pages. Pages of tmpfs and shared memory are on the lists of anonymous pages, locked
	// ones on the list of unevictable pages.
	File int64
	// Pinned is anonymous and shared memory, and what is locked.
	Pinned int64
	// Kernel is memory of the kernel's that is held for the cgroup and cannot be taken back:
	// stacks, page tables, sockets, …; Slab is the part that can be (caches of names and inodes).
	// Version 1 does not tell: both 0.
	Kernel, Slab int64
	// Swapped is version 1's count of what is in swap; version 2 has a file of its own for that.
	// SwapCached is the part of what is in swap that is in RAM too, and counted as pinned.
	Swapped, SwapCached int64
	// Shared is the part of Pinned that is files in memory: tmpfs, memfd, System V, mapped or not.
	Shared int64
	// Lazy is the part of File that is not page cache: anonymous memory that processes have given
	// back with MADV_FREE and that is still there. A process that writes to it has it back at once.
	Lazy int64
	// Mapped is the part of File that processes have mapped.
	Mapped int64
	// Huge is memory for huge pages. It is charged only if the file system was mounted with
	// memory_hugetlb_accounting.
	Huge int64
	// Limit is version 1's hierarchical_memory_limit: the lowest limit of all ancestors, also of
	// those that no mount shows. 0: none.
	Limit int64
}

// memoryStatLines adds up the lines of a memory.stat.
type memoryStatLines struct {
	MemoryStat

	// lists is how many of the five page lists were there.
	lists int
	// total is all of the kernel's memory, haveTotal since Linux 5.18; parts are the parts of it
	// that older kernels tell, and compressed is the part in which zswap keeps what is in swap,
	// and counted as swapped already.
	total, parts, compressed int64
	haveTotal                bool
	// cache is what page cache and shared memory hold together; haveCache: it is told.
	cache     int64
	haveCache bool
}

// line returns the field for the figure of a line; nil: there is none.
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

// hierarchicalLimit is the one line of version 1 that counts without the prefix "total_".
const hierarchicalLimit = "hierarchical_memory_limit"

// ParseMemoryStat parses memory.stat of either version. It fails if the page lists are missing:
// without them it is not known what can be taken back.
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
			// Without the prefix version 1 gives the figures of the cgroup without its children.
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
		// The pages that MADV_FREE gives back go to the list of inactive file pages, and are no
		// page cache. The swap cache is in neither.
		lines.Lazy = min(lines.File, max(0, Add(lines.File, lines.Shared)-lines.cache))
	}
	return lines.MemoryStat, nil
}

// Unreclaimable is what the kernel cannot take back without swapping. The counters lag a little
// behind the charge, so that it errs low.
func (s MemoryStat) Unreclaimable() int64 { return Add(s.Pinned, s.Kernel) }

// Held is the part of the usage that is not known to be reclaimable; it errs high.
func (s MemoryStat) Held(usage int64) int64 { return max(0, usage-Add(s.File, s.Slab)) }
