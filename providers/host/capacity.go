package host

import (
	"context"
	"fmt"
)

// Names of the measured sources, as they appear in Capacity.Errors and Sample.Degraded.
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

// Capacity is the most that the machine can give to engines.
type Capacity struct {
	// MemoryBytes and CPUMillis are the minimum of the machine's own size and of every limit on the
	// path to the root. Memory that is reserved for huge pages is excluded.
	MemoryBytes int64
	CPUMillis   int64
	// MemorySource and CPUSource name the origin of the figure: "host", or a limit such as "cgroup
	// /a/b memory.max".
	MemorySource string
	CPUSource    string
	// Errors maps unreadable or malformed sources to their errors; nil if there are none. With an
	// entry, the true figure may be lower.
	Errors map[string]string
}

// Capacity measures the static bound. It fails if the machine's own size is unknown. It ignores a
// limit that is unreadable or malformed, and reports it in Errors. If a limit is unreadable, the
// next Sample has no figure for memory or CPU.
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

// degradations maps sources that were unreadable, or had odd figures, to their errors.
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
