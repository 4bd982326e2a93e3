package host

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"runtime"
	"strconv"

	"github.com/bursar/bursar/internal/cgroupfs"
)

var errNoFigures = errors.New("no figures")

// cpuFacts are sums over all processors, in clock ticks since boot.
type cpuFacts struct {
	processors int
	busy, idle float64
	// odd is set if a processor's counters are malformed, so that the CPU use is unknown; nil if
	// all are fine.
	odd error
}

// millis returns the capacity of all processors, in thousandths of a core.
func (f cpuFacts) millis() int64 { return int64(f.processors) * 1000 }

// cpu reads /proc/stat (proc(5)).
func (m *Meter) cpu(s *scratch) (cpuFacts, error) {
	data, err := s.read(filepath.Join(m.proc, "stat"))
	var got cpuFacts
	if err == nil {
		got = parseProcessors(data)
	}
	if got.processors == 0 {
		if m.options.Root != "/" {
			return cpuFacts{}, errors.Join(err, fmt.Errorf("stat: %w: no processor", errNoFigures))
		}
		got.processors = runtime.NumCPU() // does not need /proc
		got.odd = errors.Join(err, fmt.Errorf("stat: %w: no processor", errNoFigures))
	}
	return got, nil
}

// parseProcessors adds up the lines "cpuN". A line with malformed counters still counts as a
// processor.
func parseProcessors(data []byte) cpuFacts {
	var got cpuFacts
	for line := range bytes.Lines(data) {
		fields := bytes.Fields(line)
		if len(fields) == 0 {
			continue
		}
		number, found := bytes.CutPrefix(fields[0], []byte("cpu"))
		if _, err := strconv.ParseUint(string(number), 10, 31); !found || err != nil {
			continue // the total, or another figure
		}
		got.processors++
		busy, idle, err := parseTicks(fields[1:])
		if err != nil {
			got.odd = fmt.Errorf("stat: %w: %q", err, bytes.TrimSpace(line))
			continue
		}
		got.busy += busy
		got.idle += idle
	}
	return got
}

// parseTicks parses user, nice, system, idle, iowait, irq, softirq and steal; older kernels have
// only the first four. User and nice include guest time. Stolen time went to other virtual machines
// on the same hardware, so it is not available here.
func parseTicks(fields [][]byte) (busy, idle float64, err error) {
	if len(fields) < 4 {
		return 0, 0, errMalformed
	}
	for i, field := range fields[:min(len(fields), 8)] {
		ticks, err := cgroupfs.Number(field)
		if err != nil || ticks > 1<<60 {
			return 0, 0, errMalformed
		}
		if i == 3 || i == 4 {
			idle += float64(ticks)
		} else {
			busy += float64(ticks)
		}
	}
	return busy, idle, nil
}

// load1 returns the load average over one minute, in thousandths.
func (m *Meter) load1(s *scratch) (int64, error) {
	data, err := s.read(filepath.Join(m.proc, "loadavg"))
	if err != nil {
		return 0, err
	}
	text, _, _ := bytes.Cut(data, []byte(" "))
	load, err := strconv.ParseFloat(string(text), 64)
	if err != nil || !(load >= 0 && load < 1e12) {
		return 0, fmt.Errorf("loadavg: %w: %q", errMalformed, text)
	}
	return int64(math.Round(load * 1000)), nil
}
