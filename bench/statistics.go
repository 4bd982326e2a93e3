package main

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// median returns the median of the numbers; the upper one if their number is even.
func median(list []float64) float64 {
	sorted := slices.Sorted(slices.Values(list))
	return sorted[len(sorted)/2]
}

// ratios returns the ratios of consecutive turns: on a shared machine each turn is compared with
// the next.
func ratios(of, to []float64) []float64 {
	list := make([]float64, min(len(of), len(to)))
	for i := range list {
		list[i] = of[i] / to[i]
	}
	return list
}

// percentile returns a percentile of sorted durations, in microseconds.
func percentile(sorted []time.Duration, share float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	at := min(len(sorted)-1, int(share*float64(len(sorted))))
	return float64(sorted[at].Nanoseconds()) / 1000
}

// middle returns the median of durations, in microseconds.
func middle(list []time.Duration) float64 { return percentile(slices.Sorted(slices.Values(list)), 0.5) }

func sum(list []time.Duration) (total time.Duration) {
	for _, d := range list {
		total += d
	}
	return total
}

// cpuTime returns the CPU time that this process has used on all cores.
func cpuTime() (time.Duration, error) {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0, fmt.Errorf("own CPU time: %w", err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano()), nil
}

// threadTime returns the CPU time that this thread has used.
func threadTime() (time.Duration, error) {
	var used unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &used); err != nil {
		return 0, fmt.Errorf("CPU time of a thread: %w", err)
	}
	return time.Duration(used.Nano()), nil
}

// clockTick is the unit of the times in /proc/PID/stat: USER_HZ, which is 100 on every architecture
// that Go supports.
const clockTick = 10 * time.Millisecond

// cpuTimeOf returns the CPU time that another process has used on all cores, to 10 ms.
func cpuTimeOf(pid int) (time.Duration, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, fmt.Errorf("CPU time: %w", err)
	}
	text := string(data)
	// The fields from the third on, proc(5).
	fields := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
	if len(fields) < 13 {
		return 0, fmt.Errorf("CPU time: /proc/%d/stat has too few fields", pid)
	}
	var ticks int64
	for _, field := range fields[11:13] { // utime and stime
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("CPU time: /proc/%d/stat: %w", pid, err)
		}
		ticks += n
	}
	return time.Duration(ticks) * clockTick, nil
}

// memoryOf returns the memory of another process (VmRSS), in bytes.
func memoryOf(pid int) (int64, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, fmt.Errorf("memory: %w", err)
	}
	for line := range strings.Lines(string(data)) {
		if rest, found := strings.CutPrefix(line, "VmRSS:"); found {
			kib, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			if err != nil {
				return 0, fmt.Errorf("memory: /proc/%d/status: %w", pid, err)
			}
			return kib << 10, nil
		}
	}
	return 0, fmt.Errorf("memory: /proc/%d/status has no VmRSS", pid)
}
