package host

import (
	"bytes"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bursar/bursar/internal/cgroupfs"
)

// figure is one line of /proc/meminfo: bytes, or a number of huge pages. The zero value: the line
// is missing or malformed.
type figure struct {
	amount int64
	known  bool
}

// meminfo is the part of /proc/meminfo (proc(5)) that this package uses. Each line is checked on
// its own, because lxcfs, gVisor and others provide their own files.
type meminfo struct {
	total, free, available            figure
	buffers, cached, shared           figure
	activeFile, inactiveFile          figure
	anonymous                         figure
	swapTotal, swapFree               figure
	hugeTotal, hugeFree, hugeReserved figure
	hugeSize                          figure
	// odd maps malformed figures to their errors.
	odd degradations
}

// field returns the field for a line; nil: the line is not used. counted: the line has no unit.
func (m *meminfo) field(name string) (to *figure, counted bool) {
	switch name {
	case "MemTotal":
		return &m.total, false
	case "MemFree":
		return &m.free, false
	case "MemAvailable":
		return &m.available, false
	case "Buffers":
		return &m.buffers, false
	case "Cached":
		return &m.cached, false
	case "Shmem":
		return &m.shared, false
	case "Active(file)":
		return &m.activeFile, false
	case "Inactive(file)":
		return &m.inactiveFile, false
	case "AnonPages":
		return &m.anonymous, false
	case "SwapTotal":
		return &m.swapTotal, false
	case "SwapFree":
		return &m.swapFree, false
	case "HugePages_Total":
		return &m.hugeTotal, true
	case "HugePages_Free":
		return &m.hugeFree, true
	case "HugePages_Rsvd":
		return &m.hugeReserved, true
	case "Hugepagesize":
		return &m.hugeSize, false
	default:
		return nil, false
	}
}

// parseMeminfo never fails. If a line occurs twice, the first one counts.
func parseMeminfo(data []byte) meminfo {
	var m meminfo
	var seen []string
	for line := range bytes.Lines(data) {
		name, value, found := bytes.Cut(line, []byte(":"))
		to, counted := m.field(string(bytes.TrimSpace(name)))
		if !found || to == nil {
			continue
		}
		parse := kilobytes
		if counted {
			parse = cgroupfs.Number
		}
		amount, err := parse(value)
		switch {
		case slices.Contains(seen, string(name)):
			if err != nil || amount != to.amount {
				m.isOddf(string(name), "a second line %q: left out", bytes.TrimSpace(line))
			}
			continue
		case err != nil || amount == math.MaxInt64:
			m.isOddf(string(name), "%q: left out", bytes.TrimSpace(line))
		default:
			*to = figure{amount, true}
		}
		seen = append(seen, string(name))
	}
	return m
}

// isOddf records an odd figure.
func (m *meminfo) isOddf(name, format string, details ...any) {
	m.odd.add(SourceMemory+"."+strings.TrimSpace(name), fmt.Errorf("meminfo: "+format, details...))
}

// slightly returns the tolerance for a figure above its bound. An emulated /proc/meminfo computes
// both at different moments, or rounds them; within the tolerance the figure is cut to the bound.
func slightly(bound int64) int64 { return max(1<<20, bound/64) }

// memoryFacts is the machine's memory, in bytes. A nil figure is unknown.
type memoryFacts struct {
	total                          int64
	available, swapTotal, swapUsed *int64
	// lazy is memory that processes have given back with MADV_FREE but that the kernel has not
	// reclaimed yet. It is part of available, although a process reclaims a page by writing to it.
	lazy int64
	// huge is the huge pages of the default size: part of total but not of available. Nil: unknown,
	// with the reason in oddHuge.
	huge    *hugePages
	oddHuge error
}

// judge turns the figures into facts, each on its own. It fails if the size of the memory is
// unknown.
func (m *meminfo) judge(degraded *degradations) (memoryFacts, error) {
	var got memoryFacts
	if !m.total.known || m.total.amount == 0 {
		return got, fmt.Errorf("meminfo: %w: no MemTotal", errNoFigures)
	}
	got.total = m.total.amount
	got.available = m.availableMemory()
	got.swapTotal, got.swapUsed = m.swap()
	got.lazy = m.lazilyFreed()
	got.huge, got.oddHuge = m.hugePages()
	for source, what := range m.odd {
		degraded.note(source, what)
	}
	return got, nil
}

// availableMemory returns MemAvailable. Kernels before 3.14 and some emulations have none; the
// result is then the free memory plus the page cache.
func (m *meminfo) availableMemory() *int64 {
	available, total := m.available, m.total.amount
	if available.known && available.amount <= total {
		return &available.amount
	}
	if available.known && available.amount-total <= slightly(total) {
		m.isOddf("MemAvailable", "MemAvailable of %d kB is above MemTotal of %d kB: cut to it", available.amount/1024, total/1024)
		return &total
	}
	if available.known {
		m.isOddf("MemAvailable", "MemAvailable of %d kB is above MemTotal of %d kB: left out", available.amount/1024, total/1024)
	}
	if !m.free.known || m.free.amount > total {
		m.isOddf("MemFree", "neither MemAvailable nor MemFree says what is available")
		return nil
	}
	cache := max(0, cgroupfs.Add(m.cached.amount, m.buffers.amount)-m.shared.amount)
	estimate := min(total, cgroupfs.Add(m.free.amount, cache))
	return &estimate
}

// swap returns the size of the swap and the used part.
func (m *meminfo) swap() (total, used *int64) {
	if !m.swapTotal.known {
		return nil, nil
	}
	total, free := &m.swapTotal.amount, m.swapFree
	switch {
	case *total == 0:
		if free.amount > 0 {
			m.isOddf("SwapFree", "SwapFree of %d kB without swap: left out", free.amount/1024)
		}
		return total, new(int64)
	case !free.known:
		return total, nil
	case free.amount <= *total:
		used := *total - free.amount
		return total, &used
	case free.amount-*total <= slightly(*total):
		m.isOddf("SwapFree", "SwapFree of %d kB is above SwapTotal of %d kB: cut to it", free.amount/1024, *total/1024)
		return total, new(int64)
	default:
		m.isOddf("SwapFree", "SwapFree of %d kB is above SwapTotal of %d kB: left out", free.amount/1024, *total/1024)
		return total, nil
	}
}

// lazilyFreed returns the memory that was given back with MADV_FREE and not yet reclaimed. The
// kernel moves such pages from the lists of anonymous pages to the list of inactive file pages, and
// counts them in no other figure of the page cache:
//
//	Active(file) + Inactive(file) - (Cached + Buffers - Shmem)
//
// Cached excludes the swap cache, whose pages are on the anonymous lists. Locked file pages are in
// Cached but on neither list, so the result is too low by them. The result is at most the mapped
// anonymous memory.
func (m *meminfo) lazilyFreed() int64 {
	for _, needed := range [...]figure{m.activeFile, m.inactiveFile, m.cached, m.buffers, m.shared, m.anonymous} {
		if !needed.known {
			return 0
		}
	}
	lists := cgroupfs.Add(m.activeFile.amount, m.inactiveFile.amount)
	cache := max(0, cgroupfs.Add(m.cached.amount, m.buffers.amount)-m.shared.amount)
	return min(max(0, lists-cache), m.anonymous.amount)
}

// hugePages returns the huge pages of the default size; a kernel without huge pages has no such
// lines. Their total cannot exceed the memory.
func (m *meminfo) hugePages() (*hugePages, error) {
	if !m.hugeTotal.known && !m.hugeSize.known {
		return &hugePages{}, nil
	}
	size, total := m.hugeSize.amount, m.hugeTotal.amount
	if !m.hugeTotal.known || total > 0 && (size == 0 || total > m.total.amount/size) {
		return nil, fmt.Errorf("meminfo: %w: HugePages_Total of %d pages of %d kB do not fit into MemTotal: left out", errMalformed, total, size/1024)
	}
	free := max(0, m.hugeFree.amount-m.hugeReserved.amount)
	return &hugePages{total: total * size, free: min(free, total) * size}, nil
}

// memory reads /proc/meminfo.
func (m *Meter) memory(s *scratch, degraded *degradations) (memoryFacts, error) {
	data, err := s.read(filepath.Join(m.proc, "meminfo"))
	if err != nil {
		return memoryFacts{}, err
	}
	figures := parseMeminfo(data)
	if !figures.total.known || figures.total.amount == 0 {
		if total, known := m.machineSize(); known {
			figures.isOddf("MemTotal", "there is no MemTotal: the kernel's own figure in its place")
			figures.total = figure{total, true}
		}
	}
	return figures.judge(degraded)
}
