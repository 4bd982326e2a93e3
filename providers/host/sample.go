package host

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"time"

	"github.com/bursar/bursar/internal/cgroupfs"
)

// Sample is one measurement of the machine. A nil field is unknown.
type Sample struct {
	Time time.Time
	// MemoryTotalBytes is the machine's memory, or the lowest cgroup limit on the path.
	// MemoryAvailableBytes is the memory that can be used without swapping: the minimum of the
	// machine's and of the room under each of those limits.
	MemoryTotalBytes     *int64
	MemoryAvailableBytes *int64
	// MemorySafetyBytes is the effective Options.SafetyBytes.
	MemorySafetyBytes int64
	// CPUTotalMillis is the CPU within every limit. CPUUsedMillis is the part of it that was
	// unavailable since the last Sample: used under the limit, or used elsewhere if the machine is
	// busier than the limit shows. Nil in the first Sample.
	CPUTotalMillis *int64
	CPUUsedMillis  *int64
	// Load1Millis is the load average over one minute, in thousandths.
	Load1Millis *int64
	// Pressure stall information over 10 s, in hundredths of a percent: the maximum of the machine
	// and of each cgroup on the path. Also nil if the kernel has none; that is not in Degraded.
	MemorySomeAvg10 *int32
	MemoryFullAvg10 *int32
	CPUSomeAvg10    *int32
	// Pressure is memory pressure with hysteresis (Options.SomeAvg10, FullAvg10, PressureHold).
	Pressure bool
	// SwapTotalBytes and SwapUsedBytes are the whole machine's.
	SwapTotalBytes, SwapUsedBytes *int64
	// HugePagesTotalBytes is memory reserved for huge pages; MemoryTotalBytes excludes it.
	// HugePagesFreeBytes is the part that is neither in use nor promised to a process that has
	// mapped it.
	HugePagesTotalBytes, HugePagesFreeBytes *int64
	// OutOfMemoryKills is the number of processes that the kernel has killed since boot because the
	// machine, or a cgroup, was out of memory. Also nil if the kernel does not count them (before
	// 4.13); that is not in Degraded.
	OutOfMemoryKills *int64
	// Processes is the number of processes, including zombies. 0: unknown.
	Processes int
	// Degraded maps sources that could not be read to their errors; nil if there are none.
	Degraded map[string]string
}

// sampler is the state of Sample between calls.
type sampler struct {
	scratch scratch
	gate    pressureGate
	cpu     cpuSample
}

// cpuSample is the last state of the CPU counters.
type cpuSample struct {
	taken bool
	time  time.Time
	facts cpuFacts
	// cgroups maps the directories of limited cgroups to their CPU time in microseconds.
	cgroups map[string]int64
}

// Sample measures the machine now. It never fails: see Sample.Degraded.
func (m *Meter) Sample(context.Context) Sample {
	sample := Sample{Time: m.now(), MemorySafetyBytes: m.options.SafetyBytes}
	var degraded degradations
	m.sampleMemory(&sample, &degraded)
	m.sampleCPU(&sample, &degraded)
	m.samplePressure(&sample, &degraded)

	load, err := m.load1(&m.sampler.scratch)
	if degraded.add(SourceLoad, err); err == nil {
		sample.Load1Millis = &load
	}
	kills, counted, err := m.outOfMemoryKills(&m.sampler.scratch)
	if degraded.add(SourceOutOfMemory, err); counted {
		sample.OutOfMemoryKills = &kills
	}
	processes, err := pids(m.proc, nil)
	if degraded.add(SourceProcesses, err); err == nil {
		sample.Processes = len(processes)
	}
	sample.Degraded = degraded
	return sample
}

// sampleMemory leaves total and available unknown if a limit cannot be read: that limit could have
// any value.
func (m *Meter) sampleMemory(sample *Sample, degraded *degradations) {
	s := &m.sampler.scratch
	memory, err := m.machineMemory(s, degraded)
	degraded.add(SourceMemory, err)
	sample.SwapTotalBytes, sample.SwapUsedBytes = memory.swapTotal, memory.swapUsed
	if memory.huge != nil {
		sample.HugePagesTotalBytes, sample.HugePagesFreeBytes = &memory.huge.total, &memory.huge.free
	}
	total, available, limitErr := m.withinLimits(s, memory, degraded)
	degraded.add(SourceMemoryCgroup, limitErr)
	if err == nil && limitErr == nil {
		sample.MemoryTotalBytes, sample.MemoryAvailableBytes = &total, available
	}
}

// withinLimits returns the memory within the limits on the path; available is nil if unknown.
// Lazily freed memory is not available on any level, with one exception: pages that the last
// Engines excluded from an engine's unreclaimable memory. That engine may claim them back, and its
// promise covers them.
func (m *Meter) withinLimits(s *scratch, memory memoryFacts, degraded *degradations) (total int64, available *int64, err error) {
	limits, err := m.memoryLimits(s, degraded)
	if err != nil {
		return 0, nil, err
	}
	limits = lowerThan(memory.total, limits)
	total, _ = lowest(memory.total, limits)
	promised := m.lazyOfEngines.Load()
	left := int64(math.MaxInt64)
	if memory.available != nil {
		left = *memory.available - max(0, memory.lazy-promised)
	}
	for _, limit := range limits {
		held, lazy, err := s.readHeld(limit.at, degraded)
		if err != nil {
			return 0, nil, err
		}
		left = min(left, limit.amount-cgroupfs.Add(held, max(0, lazy-promised)))
	}
	if memory.available != nil {
		left = max(0, left)
		available = &left
	}
	return total, available, nil
}

// readHeld returns a cgroup's memory that the kernel cannot reclaim, and the lazily freed part of
// the rest. If one of its two files is malformed, it uses the other one.
func (s *scratch) readHeld(at cgroupfs.Place, degraded *degradations) (held, lazy int64, err error) {
	usage, err := s.readUsage(at)
	if err != nil && !errors.Is(err, errMalformed) {
		return 0, 0, err
	}
	stat, statErr := s.readMemoryStat(at)
	if statErr != nil && !errors.Is(statErr, errMalformed) {
		return 0, 0, statErr
	}
	switch {
	case err != nil && statErr != nil:
		return 0, 0, errors.Join(err, statErr)
	case err != nil || usage == math.MaxInt64:
		degraded.add(SourceMemoryCgroup, orOdd(err, "cgroup "+at.Cgroup()+": its use of memory"))
		return stat.Unreclaimable(), stat.Lazy, nil
	case statErr != nil:
		degraded.add(SourceMemoryCgroup, statErr)
		return usage, 0, nil
	}
	return stat.Held(usage), stat.Lazy, nil
}

// orOdd returns the error, or otherwise one that reports a figure out of range.
func orOdd(err error, what string) error {
	if err != nil {
		return err
	}
	return fmt.Errorf("%s: %w: out of range: left out", what, errMalformed)
}

// Available returns the current value of Sample.MemoryAvailableBytes, in bytes. It takes about 0.1
// ms and may be called at any time from any goroutine. It is for the moment of a grant decision,
// when the last Sample is too old.
func (m *Meter) Available(context.Context) (int64, error) {
	var s scratch
	var degraded degradations // a Sample reports single odd figures
	memory, err := m.machineMemory(&s, &degraded)
	if err != nil {
		return 0, fmt.Errorf("measuring the machine's memory: %w", err)
	}
	_, available, err := m.withinLimits(&s, memory, &degraded)
	if err != nil {
		return 0, fmt.Errorf("measuring what limits leave of the memory: %w", err)
	}
	if available == nil {
		return 0, fmt.Errorf("measuring the machine's memory: %w", errNoFigures)
	}
	return *available, nil
}

// outOfMemoryKills reads the count from /proc/vmstat; false if the kernel has none.
func (m *Meter) outOfMemoryKills(s *scratch) (int64, bool, error) {
	data, err := s.optional(filepath.Join(m.proc, "vmstat"))
	if err != nil {
		return 0, false, err
	}
	for line := range bytes.Lines(data) {
		if value, found := bytes.CutPrefix(line, []byte("oom_kill ")); found {
			kills, err := cgroupfs.Number(value)
			return kills, err == nil, err
		}
	}
	return 0, false, nil
}

func (m *Meter) sampleCPU(sample *Sample, degraded *degradations) {
	limits, limitErr := m.cpuLimits(&m.sampler.scratch, degraded)
	now := cpuSample{taken: true, time: sample.Time}
	var err error
	now.facts, err = m.cpu(&m.sampler.scratch)
	degraded.add(SourceCPU, err)
	limits = lowerThan(now.facts.millis(), limits)
	if limitErr == nil {
		now.cgroups, limitErr = m.cgroupsCPU(limits)
	}
	degraded.add(SourceCPUCgroup, limitErr)
	if err != nil || limitErr != nil {
		m.sampler.cpu = cpuSample{}
		return
	}
	degraded.add(SourceCPU, now.facts.odd)
	total, _ := lowest(now.facts.millis(), limits)
	sample.CPUTotalMillis = &total
	if left, known := now.unused(m.sampler.cpu, limits); known {
		used := min(total, max(0, total-left))
		sample.CPUUsedMillis = &used
	}
	m.sampler.cpu = now
}

// cgroupsCPU reads the CPU time of the limited cgroups. In version 1 a separate controller counts
// it, which may have other cgroups: a missing one is left out.
func (m *Meter) cgroupsCPU(limits []limit) (map[string]int64, error) {
	ran := make(map[string]int64, len(limits))
	for _, limit := range limits {
		at := limit.at
		if at.V1 {
			known, err := m.hierarchies(&m.sampler.scratch)
			if err != nil {
				return nil, err
			}
			if at, err = known.Find("cpuacct", at.Cgroup()); cgroupfs.Absent(err) {
				continue
			} else if err != nil {
				return nil, err
			}
		}
		microseconds, err := m.sampler.scratch.readCPU(at)
		if err != nil {
			return nil, err
		}
		ran[limit.at.Directory()] = microseconds
	}
	return ran, nil
}

// unused returns the unused CPU since the earlier sample: the minimum of the machine's and of the
// room under each limit. It is unknown in the first sample, if the counters have not moved, and if
// the number of processors has changed.
func (s cpuSample) unused(earlier cpuSample, limits []limit) (int64, bool) {
	busy, idle := s.facts.busy-earlier.facts.busy, s.facts.idle-earlier.facts.idle
	if !earlier.taken || s.facts.odd != nil || earlier.facts.odd != nil || s.facts.processors != earlier.facts.processors || busy < 0 || busy+idle <= 0 {
		return 0, false
	}
	// The kernel's idle time counter can step back a little.
	share := max(0, idle) / (busy + max(0, idle))
	left := int64(math.Round(share * float64(s.facts.millis())))
	elapsed := s.time.Sub(earlier.time).Microseconds()
	for _, limit := range limits {
		before, known := earlier.cgroups[limit.at.Directory()]
		after, still := s.cgroups[limit.at.Directory()]
		if known && still && elapsed > 0 && after >= before {
			left = min(left, limit.amount-int64(float64(after-before)*1000/float64(elapsed)))
		}
	}
	return left, true
}

// plenty reports whether more than percent of the memory is available; false if that is unknown.
func (s *Sample) plenty(percent int) bool {
	if s.MemoryTotalBytes == nil || s.MemoryAvailableBytes == nil {
		return false
	}
	return *s.MemoryAvailableBytes > *s.MemoryTotalBytes/100*int64(percent)
}

func (m *Meter) samplePressure(sample *Sample, degraded *degradations) {
	s := &m.sampler.scratch
	memory, err := m.pressureOf(s, "memory")
	if err == nil {
		sample.MemorySomeAvg10, sample.MemoryFullAvg10 = memory.some, memory.full
	}
	// A malformed file on one level must not keep the gate closed for ever.
	told := err == nil || memory.some != nil
	if sample.plenty(m.options.ScarcePercent) {
		memory = stall{} // the stalls had another cause than a lack of memory
	}
	sample.Pressure = m.sampler.gate.update(sample.Time, memory, told)
	cpu, cpuErr := m.pressureOf(s, "cpu")
	if cpuErr == nil {
		sample.CPUSomeAvg10 = cpu.some
	} else if err == nil {
		err = cpuErr
	}
	degraded.add(SourcePressure, err)
}
