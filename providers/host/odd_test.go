package host

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// oddMeminfo returns the meminfo of a machine of 8 GiB with 6 GiB available and 1 GiB of swap, with
// some lines replaced; "" removes one.
func oddMeminfo(replaced map[string]string) string {
	var out strings.Builder
	for _, line := range []string{
		"MemTotal: 8388608 kB", "MemFree: 4194304 kB", "MemAvailable: 6291456 kB", "Buffers: 0 kB", "Cached: 2097152 kB", "Shmem: 0 kB",
		"Active(file): 1048576 kB", "Inactive(file): 1048576 kB", "AnonPages: 2097152 kB", "SwapTotal: 1048576 kB", "SwapFree: 1048576 kB",
	} {
		name, _, _ := strings.Cut(line, ":")
		if other, is := replaced[name]; is {
			line = other
		}
		out.WriteString(line + "\n")
	}
	return out.String()
}

// TestOneOddFigureClosesNoHost: figures that were seen with lxcfs, gVisor and others, and similar
// ones. Each is cut, or left out and unknown. The others count, and the machine has a capacity.
// Before, each of these made the memory unknown, and the agent did not start.
func TestOneOddFigureClosesNoHost(t *testing.T) {
	const unknown = "?"
	for name, test := range map[string]struct {
		replaced               map[string]string
		total, available, swap string // swap is the used part
		source                 string
	}{
		"as it should be":                    {nil, "8 GiB", "6 GiB", "0 B", ""},
		"more swap free than 2^63":           {map[string]string{"SwapTotal": "SwapTotal: 0 kB", "SwapFree": "SwapFree: 18446744073709346016 kB"}, "8 GiB", "6 GiB", "0 B", "memory.SwapFree"},
		"swap free without swap":             {map[string]string{"SwapTotal": "SwapTotal: 0 kB", "SwapFree": "SwapFree: 4 kB"}, "8 GiB", "6 GiB", "0 B", "memory.SwapFree"},
		"slightly more swap free than there": {map[string]string{"SwapFree": "SwapFree: 1048580 kB"}, "8 GiB", "6 GiB", "0 B", "memory.SwapFree"},
		"much more swap free than there":     {map[string]string{"SwapFree": "SwapFree: 8388608 kB"}, "8 GiB", "6 GiB", unknown, "memory.SwapFree"},
		"no SwapFree":                        {map[string]string{"SwapFree": ""}, "8 GiB", "6 GiB", unknown, ""},
		"no SwapTotal":                       {map[string]string{"SwapTotal": ""}, "8 GiB", "6 GiB", unknown, ""},
		"4 kB more available than there":     {map[string]string{"MemAvailable": "MemAvailable: 8388612 kB"}, "8 GiB", "8 GiB", "0 B", "memory.MemAvailable"},
		"much more available than there":     {map[string]string{"MemAvailable": "MemAvailable: 18446744073709551612 kB"}, "8 GiB", "6 GiB", "0 B", "memory.MemAvailable"},
		"twice as much available as there":   {map[string]string{"MemAvailable": "MemAvailable: 16777216 kB"}, "8 GiB", "6 GiB", "0 B", "memory.MemAvailable"},
		"no MemAvailable":                    {map[string]string{"MemAvailable": ""}, "8 GiB", "6 GiB", "0 B", ""},
		"neither it nor MemFree":             {map[string]string{"MemAvailable": "", "MemFree": "MemFree: -1 kB"}, "8 GiB", unknown, "0 B", "memory.MemFree"},
		"negative":                           {map[string]string{"SwapFree": "SwapFree: -4 kB"}, "8 GiB", "6 GiB", unknown, "memory.SwapFree"},
		"another unit":                       {map[string]string{"SwapTotal": "SwapTotal: 1 GB"}, "8 GiB", "6 GiB", unknown, "memory.SwapTotal"},
		"no unit":                            {map[string]string{"MemFree": "MemFree: 12"}, "8 GiB", "6 GiB", "0 B", "memory.MemFree"},
		"twice, and not the same":            {map[string]string{"MemTotal": "MemTotal: 8388608 kB\nMemTotal: 4 kB"}, "8 GiB", "6 GiB", "0 B", "memory.MemTotal"},
		"twice the same":                     {map[string]string{"MemTotal": "MemTotal: 8388608 kB\nMemTotal: 8388608 kB"}, "8 GiB", "6 GiB", "0 B", ""},
		"garbage of a line that is not used": {map[string]string{"MemTotal": "MemTotal: 8388608 kB\nKeks: many"}, "8 GiB", "6 GiB", "0 B", ""},
		"garbage between the lines":          {map[string]string{"MemTotal": "\x00\xff\nMemTotal: 8388608 kB\n:::"}, "8 GiB", "6 GiB", "0 B", ""},
		"too many huge pages": {
			map[string]string{"MemTotal": "MemTotal: 8388608 kB\nHugePages_Total: 18446744073709551615\nHugepagesize: 2048 kB"}, "8 GiB", "6 GiB", "0 B", "memory.HugePages_Total",
		},
	} {
		t.Run(name, func(t *testing.T) {
			machine := newMachine(t)
			machine.load("testdata/machines/bare.txtar")
			machine.write("proc/meminfo", oddMeminfo(test.replaced))
			meter := machine.meter(Options{})
			capacity, err := meter.Capacity(t.Context())
			if err != nil || size(&capacity.MemoryBytes) != test.total {
				t.Errorf("capacity %s, %v; want %s", size(&capacity.MemoryBytes), err, test.total)
			}
			sample := meter.Sample(t.Context())
			got := []string{size(sample.MemoryTotalBytes), size(sample.MemoryAvailableBytes), size(sample.SwapUsedBytes)}
			if diff := cmp.Diff([]string{test.total, test.available, test.swap}, got); diff != "" {
				t.Errorf("total, available, swap used (-want +got):\n%s", diff)
			}
			if _, named := sample.Degraded[test.source]; named != (test.source != "") || !named && len(sample.Degraded) > 0 {
				t.Errorf("named: %v; want %q", sample.Degraded, test.source)
			}
			available, err := meter.Available(t.Context())
			if (err == nil) != (test.available != unknown) || err == nil && size(&available) != test.available {
				t.Errorf("before a grant: %s, %v", size(&available), err)
			}
		})
	}
}

// TestOddPoolsOfHugePagesCloseNoHost: their sizes and numbers come from separate files.
func TestOddPoolsOfHugePagesCloseNoHost(t *testing.T) {
	for _, pages := range []string{"4096", "9223372036854775807", "18446744073709551615", "-1", "", "many"} {
		machine := newMachine(t)
		machine.load("testdata/machines/bare.txtar")
		machine.write("proc/meminfo", oddMeminfo(nil))
		machine.write("sys/kernel/mm/hugepages/hugepages-4096kB/nr_hugepages", pages+"\n")
		machine.write("sys/kernel/mm/hugepages/hugepages-4096kB/free_hugepages", "0\n")
		machine.write("sys/kernel/mm/hugepages/hugepages-4096kB/resv_hugepages", "0\n")
		sample := machine.meter(Options{}).Sample(t.Context())
		if size(sample.MemoryTotalBytes) != "8 GiB" || sample.Degraded[SourceHugePages] == "" {
			t.Errorf("%s pages: %s of memory, %v", pages, size(sample.MemoryTotalBytes), sample.Degraded)
		}
	}
}

// TestOddLimitsOfCgroupsAreLeftOut: the limits of the slice above the agent's own.
func TestOddLimitsOfCgroupsAreLeftOut(t *testing.T) {
	f := func(file, data, total, available string, named bool) {
		t.Helper()
		machine := newMachine(t)
		machine.load("testdata/machines/v2.txtar")
		machine.write("sys/fs/cgroup/system.slice/"+file, data)
		sample := machine.meter(Options{}).Sample(t.Context())
		if size(sample.MemoryTotalBytes) != total || size(sample.MemoryAvailableBytes) != available || (sample.Degraded[SourceMemoryCgroup] != "") != named {
			t.Errorf("%s %q: %s of %s, %v; want %s of %s", file, data, size(sample.MemoryAvailableBytes), size(sample.MemoryTotalBytes), sample.Degraded, available, total)
		}
	}
	f("memory.max", "max\n", "7 GiB", "6 GiB", false)
	f("memory.max", "9223372036854771712\n", "7 GiB", "6 GiB", false)
	f("memory.max", "18446744073709551615\n", "7 GiB", "6 GiB", false)
	f("memory.max", "garbage\n", "7 GiB", "6 GiB", true)
	f("memory.max", "", "7 GiB", "6 GiB", true)
	f("memory.max", "-1\n", "7 GiB", "6 GiB", true)
	f("memory.current", "18446744073709551615\n", "7 GiB", "6 GiB", true)
	f("memory.current", "9663676416\n", "7 GiB", "2.5 GiB", false) // 9 GiB: above its limit of 8, of which 3.5 can be reclaimed
}

// TestOddCountersOfProcessors: the processors are counted all the same.
func TestOddCountersOfProcessors(t *testing.T) {
	for name, test := range map[string]struct {
		first, second string
		used          string
		named         bool
	}{
		"half":             {"100 0 0 100 0 0 0", "150 0 0 150 0 0 0", "500", false},
		"going back":       {"100 0 0 100 0 0 0", "50 0 0 150 0 0 0", "?", false},
		"nothing":          {"0 0 0 0 0 0 0", "0 0 0 0 0 0 0", "?", false},
		"negative":         {"100 0 0 100 0 0 0", "-150 0 0 150 0 0 0", "?", true},
		"not a number":     {"100 0 0 100 0 0 0", "nan 0 0 150 0 0 0", "?", true},
		"out of range":     {"100 0 0 100 0 0 0", "18446744073709551615 0 0 150 0 0 0", "?", true},
		"far out of range": {"100 0 0 100 0 0 0", strings.Repeat("9", 400) + " 0 0 150 0 0 0", "?", true},
		"cut short":        {"100 0 0 100 0 0 0", "100 0", "?", true},
	} {
		machine := newMachine(t)
		machine.load("testdata/machines/bare.txtar")
		machine.write("proc/stat", "cpu 0 0 0 0\ncpu0 "+test.first+"\n")
		meter := machine.meter(Options{})
		meter.Sample(t.Context())
		machine.now = machine.now.Add(time.Second)
		machine.write("proc/stat", "cpu 0 0 0 0\ncpu0 "+test.second+"\n")
		capacity, err := meter.Capacity(t.Context())
		if err != nil || capacity.CPUMillis != 1000 {
			t.Errorf("%s: capacity %d, %v", name, capacity.CPUMillis, err)
		}
		sample := meter.Sample(t.Context())
		if known(sample.CPUTotalMillis) != "1000" || known(sample.CPUUsedMillis) != test.used || (sample.Degraded[SourceCPU] != "") != test.named {
			t.Errorf("%s: %s of %s used, %v; want %s", name, known(sample.CPUUsedMillis), known(sample.CPUTotalMillis), sample.Degraded, test.used)
		}
	}
}

// TestOneOddPressureFileKeepsNoGateClosed: a level with a malformed file must not keep the host
// closed after the pressure is over.
func TestOneOddPressureFileKeepsNoGateClosed(t *testing.T) {
	machine := newMachine(t)
	machine.load("testdata/machines/v2.txtar")
	machine.write("sys/fs/cgroup/system.slice/memory.pressure", "some avg10=nan\n")
	meter := machine.meter(Options{ScarcePercent: 100, PressureHold: time.Second})
	const line = "some avg10=%s avg60=0 avg300=0 total=0\nfull avg10=0.00 avg60=0 avg300=0 total=0\n"
	for _, step := range []struct {
		avg10  string
		closed bool
	}{{"0.00", false}, {"50.00", true}, {"0.00", true}, {"0.00", false}} {
		machine.write("proc/pressure/memory", strings.Replace(line, "%s", step.avg10, 1))
		machine.now = machine.now.Add(2 * time.Second)
		if sample := meter.Sample(t.Context()); sample.Pressure != step.closed || sample.Degraded[SourcePressure] == "" {
			t.Errorf("at %s: pressure %v, %v", step.avg10, sample.Pressure, sample.Degraded)
		}
	}
}

func FuzzMeminfo(f *testing.F) {
	f.Add([]byte(oddMeminfo(nil)))
	f.Add([]byte("MemTotal: 1 kB\nMemAvailable: 18446744073709551615 kB\nSwapFree: 3 kB\nHugePages_Total: 7\nHugepagesize: 2048 kB\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		figures := parseMeminfo(data)
		var degraded degradations
		got, err := figures.judge(&degraded)
		if err != nil {
			return
		}
		for name, amount := range map[string]*int64{"available": got.available, "swap": got.swapTotal, "swap used": got.swapUsed, "lazy": &got.lazy} {
			if amount != nil && (*amount < 0 || name == "available" && *amount > got.total || *amount == math.MaxInt64) {
				t.Errorf("%q: %s is %d", data, name, *amount)
			}
		}
	})
}
