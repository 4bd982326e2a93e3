package host

import (
	"context"
	"fmt"
)

// Names of what is measured, as they appear in Capacity.Errors and Sample.Degraded.
const (
	SourceMemory       = "memory"
	SourceMemoryCgroup = "memory.cgroup"
	SourceHugePages    = "memory.hugepages"
	SourceOutOfMemory  = "memory.oom"
	SourceCPU          = "cpu"
	SourceCPUCgroup    = "cpu.cgroup"
	SourceLoad         = "load"
	SourcePressure     = "pressure"
	SourceProcesses    = "processes"
)

// Capacity is what the machine has at most.
type Capacity struct {
	// MemoryBytes and CPUMillis are the least of the machine's and every limit on the path to the
	// root. Memory that is set aside for huge pages is not the machine's to give.
	MemoryBytes int64
	CPUMillis   int64
	// MemorySource and CPUSource name what set the figure: "host", or a limit such as "cgroup /a/b
	// memory.max".
	MemorySource string
	CPUSource    string
	// Errors has what could not be read, by source; nil if all could. The true figure may be
	// lower.
	Errors map[string]string
}

// Capacity measures the static bound. It fails if the machine's own size is unknown. Limits that
// cannot be read are reported in Errors; the next Sample then has no figure for memory or CPU
// either.
func (m *Meter) Capacity(ctx context.Context) (Capacity, error) {
	var s scratch
	var degraded degradations
	memory, err := m.machineMemory(ctx, &s, &degraded)
	if err != nil {
		return Capacity{}, fmt.Errorf("measuring the machine's memory: %w", err)
	}
	cpu, err := m.facts.cpu(ctx)
	if err != nil {
		return Capacity{}, fmt.Errorf("counting processors: %w", err)
	}
	memoryLimits, err := m.memoryLimits(&s)
	degraded.add(SourceMemoryCgroup, err)
	cpuLimits, err := m.cpuLimits(&s)
	degraded.add(SourceCPUCgroup, err)

	capacity := Capacity{Errors: degraded}
	capacity.MemoryBytes, capacity.MemorySource = lowest(memory.total, memoryLimits)
	capacity.CPUMillis, capacity.CPUSource = lowest(cpu.millis(), cpuLimits)
	return capacity, nil
}

// degradations are the sources that could not be read, with their errors.
type degradations map[string]string

func (d *degradations) add(source string, err error) {
	if err == nil {
		return
	}
	if *d == nil {
		*d = degradations{}
	}
	(*d)[source] = err.Error()
}
