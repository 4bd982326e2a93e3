package host

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/bursar/bursar/internal/cgroupfs"
)

// MemAvailable is wrong about some memory. It excludes the cache of ZFS, which the kernel can
// reclaim. It includes memory that its owner can claim back: lazily freed pages (see
// memoryFacts.lazy), and pages that KSM has merged.

// correct corrects the machine's available memory: it adds the ZFS cache and subtracts the merged
// pages.
func (m *Meter) correct(s *scratch, facts *memoryFacts, degraded *degradations) {
	if facts.available == nil {
		return
	}
	cache, err := m.zfsCache(s, facts.total)
	degraded.add(SourceZFS, err)
	merged, err := m.mergedPages(s, facts.total)
	degraded.add(SourceMergedPages, err)
	available := min(facts.total, cgroupfs.Add(*facts.available, cache))
	available = max(0, available-merged)
	facts.available = &available
}

// zfsCache returns how much the file cache of ZFS (the ARC) can shrink, in bytes: its size minus
// c_min. Without ZFS it is 0.
func (m *Meter) zfsCache(s *scratch, most int64) (int64, error) {
	file := filepath.Join(m.proc, "spl", "kstat", "zfs", "arcstats")
	data, err := s.optional(file)
	if err != nil || data == nil {
		return 0, err
	}
	size, least := int64(-1), int64(-1)
	for line := range bytes.Lines(data) { // name, type, value
		fields := bytes.Fields(line)
		if len(fields) != 3 {
			continue
		}
		var to *int64
		switch string(fields[0]) {
		case "size":
			to = &size
		case "c_min":
			to = &least
		default:
			continue
		}
		if *to, err = cgroupfs.Number(fields[2]); err != nil {
			return 0, fmt.Errorf("%s: %s: %w", file, fields[0], err)
		}
	}
	switch {
	case size < 0 || least < 0:
		return 0, fmt.Errorf("%s: %w: want size and c_min", file, errNoFigures)
	case size > most:
		return 0, fmt.Errorf("%s: %w: a size of %d bytes is more than the memory: left out", file, errMalformed, size)
	}
	return max(0, size-least), nil
}

// mergedPages returns the memory that KSM saves now, in bytes: the mappings of merged pages beyond
// the pages themselves. A page becomes private again when a process writes to it. Processes count
// merged pages as touched.
func (m *Meter) mergedPages(s *scratch, most int64) (int64, error) {
	file := filepath.Join(m.options.Root, "sys", "kernel", "mm", "ksm", "pages_sharing")
	pages, err := s.readNumber(file)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission):
		return 0, nil // no KSM, or a container hides it
	case err != nil:
		return 0, err
	case pages > math.MaxInt64/int64(os.Getpagesize()):
		return 0, fmt.Errorf("%s: %w: %d pages: left out", file, errMalformed, pages)
	}
	// The merged pages can add up to more than the machine's memory.
	return min(most, pages*int64(os.Getpagesize())), nil
}

// machineSize returns the machine's memory from the kernel, without /proc; false if unknown, as on
// a fixture.
func (m *Meter) machineSize() (int64, bool) {
	var info unix.Sysinfo_t
	if m.options.Root != "/" || unix.Sysinfo(&info) != nil {
		return 0, false
	}
	total, unit := uint64(info.Totalram), uint64(max(1, info.Unit)) //nolint:unconvert // 32 bits on some machines
	if total == 0 || total > math.MaxInt64/unit {
		return 0, false
	}
	return int64(total * unit), true //nolint:gosec // checked above
}
