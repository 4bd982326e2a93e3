package host

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"

	"github.com/bursar/bursar/internal/cgroupfs"
)

// readNumber reads a file with one number.
func (s *scratch) readNumber(file string) (int64, error) {
	data, err := s.read(file)
	if err != nil {
		return 0, err
	}
	value, err := cgroupfs.Number(data)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", file, err)
	}
	return value, nil
}

// readMemory reads a cgroup's usage and memory.stat.
func (s *scratch) readMemory(at cgroupfs.Place) (usage int64, stat cgroupfs.MemoryStat, err error) {
	if usage, err = s.readUsage(at); err != nil {
		return 0, cgroupfs.MemoryStat{}, err
	}
	stat, err = s.readMemoryStat(at)
	return usage, stat, err
}

// readUsage reads the memory charged to a cgroup, including page cache.
func (s *scratch) readUsage(at cgroupfs.Place) (int64, error) {
	file := "memory.current"
	if at.V1 {
		file = "memory.usage_in_bytes"
	}
	return s.readNumber(filepath.Join(at.Directory(), file))
}

// readSwapped reads the memory of a cgroup that is in swap and not also in RAM. It is zero for
// kernels without swap and for cgroups without swap accounting.
func (s *scratch) readSwapped(at cgroupfs.Place, stat cgroupfs.MemoryStat) (int64, error) {
	swapped := stat.Swapped
	if !at.V1 {
		data, err := s.optional(filepath.Join(at.Directory(), "memory.swap.current"))
		if err != nil || data == nil {
			return 0, err
		}
		if swapped, err = cgroupfs.Number(data); err != nil {
			return 0, fmt.Errorf("cgroup %s memory.swap.current: %w", at.Cgroup(), err)
		}
	}
	return max(0, swapped-stat.SwapCached), nil
}

func (s *scratch) readMemoryStat(at cgroupfs.Place) (cgroupfs.MemoryStat, error) {
	data, err := s.read(filepath.Join(at.Directory(), "memory.stat"))
	if err != nil {
		return cgroupfs.MemoryStat{}, err
	}
	stat, err := cgroupfs.ParseMemoryStat(data, at.V1)
	if err != nil {
		return cgroupfs.MemoryStat{}, fmt.Errorf("cgroup %s: %w", at.Cgroup(), err)
	}
	return stat, nil
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
		count = cgroupfs.Add(count, int64(high-low+1))
	}
	return count, nil
}

// parseUsageUsec finds usage_usec in cpu.stat of version 2, in microseconds since the creation of
// the cgroup.
func parseUsageUsec(data []byte) (int64, error) {
	for line := range bytes.Lines(data) {
		if value, found := bytes.CutPrefix(line, []byte("usage_usec ")); found {
			return cgroupfs.Number(value)
		}
	}
	return 0, fmt.Errorf("%w cpu.stat: no usage_usec", errMalformed)
}

// readCPU reads the CPU time of a cgroup's processes in microseconds, including cgroups below it.
func (s *scratch) readCPU(at cgroupfs.Place) (int64, error) {
	if at.V1 {
		nanoseconds, err := s.readNumber(filepath.Join(at.Directory(), "cpuacct.usage"))
		return nanoseconds / 1000, err
	}
	file := filepath.Join(at.Directory(), "cpu.stat")
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

// optional reads a file; it returns nil if the file is missing.
func (s *scratch) optional(file string) ([]byte, error) {
	data, err := s.read(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return data, err
}
