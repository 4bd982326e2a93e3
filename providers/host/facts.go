package host

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"

	"github.com/shirou/gopsutil/v3/common"
	"github.com/shirou/gopsutil/v3/cpu"
	"github.com/shirou/gopsutil/v3/load"
	"github.com/shirou/gopsutil/v3/mem"
)

// facts are what gopsutil knows of the whole machine; it knows nothing of cgroups. This file is
// all that uses it. It is frozen at version 3 and lenient: a file that is missing reads as zeros,
// an empty one makes it panic. Both become errors here.
type facts struct {
	environment common.EnvMap
}

func newFacts(root string) facts {
	return facts{environment: common.EnvMap{
		common.HostProcEnvKey: filepath.Join(root, "proc"),
		common.HostSysEnvKey:  filepath.Join(root, "sys"),
	}}
}

var errNoFigures = errors.New("no figures")

// guarded runs a gopsutil call below the configured root, and turns its panics into errors.
func (f facts) guarded(ctx context.Context, source string, call func(context.Context) error) (err error) {
	defer func() {
		if problem := recover(); problem != nil {
			err = fmt.Errorf("%s: %w: %v", source, errMalformed, problem)
		}
	}()
	if err := call(context.WithValue(ctx, common.EnvKey, f.environment)); err != nil {
		return fmt.Errorf("%s: %w", source, err)
	}
	return nil
}

// memoryFacts are in bytes.
type memoryFacts struct {
	total, available, swapTotal, swapUsed int64
	// huge are the huge pages of the default size; they are part of total and not of available.
	huge hugePages
}

func (f facts) memory(ctx context.Context) (memoryFacts, error) {
	var got memoryFacts
	err := f.guarded(ctx, "meminfo", func(ctx context.Context) error {
		memory, err := mem.VirtualMemoryWithContext(ctx)
		if err != nil {
			return fmt.Errorf("gopsutil: %w", err)
		}
		if memory.Total == 0 || memory.Total > math.MaxInt64 || memory.Available > memory.Total || memory.SwapFree > memory.SwapTotal {
			return errNoFigures
		}
		got.total = int64(memory.Total)
		got.available = int64(min(memory.Available, math.MaxInt64))
		got.swapTotal = int64(min(memory.SwapTotal, math.MaxInt64))
		got.swapUsed = int64(min(memory.SwapTotal-memory.SwapFree, math.MaxInt64))
		if size := memory.HugePageSize; size > 0 && memory.HugePagesTotal <= memory.Total/size {
			free := memory.HugePagesFree - min(memory.HugePagesFree, memory.HugePagesRsvd)
			got.huge = hugePages{ // both within the machine's memory
				total: int64(min(memory.HugePagesTotal*size, math.MaxInt64)), free: int64(min(min(free, memory.HugePagesTotal)*size, math.MaxInt64)),
			}
		}
		return nil
	})
	return got, err
}

// cpuFacts are sums over all processors, in seconds since boot.
type cpuFacts struct {
	processors int
	busy, idle float64
}

// millis is what the processors can do together, in thousandths of a core.
func (f cpuFacts) millis() int64 { return int64(f.processors) * 1000 }

func (f facts) cpu(ctx context.Context) (cpuFacts, error) {
	var got cpuFacts
	err := f.guarded(ctx, "stat", func(ctx context.Context) error {
		// Not cpu.Percent: it keeps its last sample in a variable that all its callers share.
		times, err := cpu.TimesWithContext(ctx, true)
		if err != nil {
			return fmt.Errorf("gopsutil: %w", err)
		}
		if len(times) == 0 {
			return errNoFigures
		}
		for _, processor := range times {
			got.processors++
			// User and Nice contain guests' time. Stolen time went to other machines on the same
			// hardware: it is not available here.
			got.busy += processor.User + processor.Nice + processor.System + processor.Irq + processor.Softirq + processor.Steal
			got.idle += processor.Idle + processor.Iowait
		}
		return nil
	})
	return got, err
}

// load1 is the load average over one minute, in thousandths.
func (f facts) load1(ctx context.Context) (int64, error) {
	var got int64
	err := f.guarded(ctx, "loadavg", func(ctx context.Context) error {
		average, err := load.AvgWithContext(ctx)
		if err != nil {
			return fmt.Errorf("gopsutil: %w", err)
		}
		if !(average.Load1 >= 0 && average.Load1 < 1e12) {
			return errNoFigures
		}
		got = int64(math.Round(average.Load1 * 1000))
		return nil
	})
	return got, err
}
