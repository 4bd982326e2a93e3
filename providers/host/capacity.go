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
	SourceMergedPages  = "memory.ksm"
	SourceZFS          = "memory.zfs"
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
	// Errors has what could not be read or made no sense, by source; nil if there is nothing. The
	// true figure may be lower.
	Errors map[string]string
}

// Capacity measures the static bound. It fails if the machine's own size is unknown. A limit that
// cannot be read, or makes no sense, is left out and reported in Errors. The next Sample has no
// figure for memory or CPU if one cannot be read.
func (m *Meter) Capacity(context.Context) (Capacity, error) {
	var s scratch
	var degraded degradations
	memory, err := m.machineMemory(&s, &degraded)
	if err != nil {
		return Capacity{}, fmt.Errorf("measuring the machine's memory: %w", err)
	}
	cpu, err := m.cpu(&s)
	if err != nil {
		return Capacity{}, fmt.Errorf("counting processors: %w", err)
	}
	memoryLimits, err := m.memoryLimits(&s, &degraded)
	degraded.add(SourceMemoryCgroup, err)
	cpuLimits, err := m.cpuLimits(&s, &degraded)
	degraded.add(SourceCPUCgroup, err)

	capacity := Capacity{Errors: degraded}
	capacity.MemoryBytes, capacity.MemorySource = lowest(memory.total, memoryLimits)
	capacity.CPUMillis, capacity.CPUSource = lowest(cpu.millis(), cpuLimits)
	return capacity, nil
}

// degradations are the sources that could not be read, or had odd figures, with their errors.
type degradations map[string]string

func (d *degradations) add(source string, err error) {
	if err != nil {
		d.note(source, err.Error())
	}
}

func (d *degradations) note(source, what string) {
	if *d == nil {
		*d = degradations{}
	}
	if before := (*d)[source]; before != "" && before != what {
		what = before + "; " + what
	}
	(*d)[source] = what
}
