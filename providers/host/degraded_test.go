package host

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func sortedKeys(m map[string]string) []string { return slices.Sorted(maps.Keys(m)) }

// TestOneBrokenSourceDegradesOneField breaks one source after the other of a healthy machine. A
// malformed limit is left out, and closes no host.
func TestOneBrokenSourceDegradesOneField(t *testing.T) {
	const group = "sys/fs/cgroup/system.slice/agent.service/"
	memory := []string{"MemoryAvailableBytes", "MemoryTotalBytes"}
	machineOnly := []string{"HugePagesFreeBytes", "HugePagesTotalBytes", "SwapTotalBytes", "SwapUsedBytes"}
	cpu := []string{"CPUTotalMillis", "CPUUsedMillis"}
	stalls := []string{"MemoryFullAvg10", "MemorySomeAvg10"}
	for _, broken := range []struct {
		file, data string
		source     string
		lost       []string
	}{
		{"proc/meminfo", "", SourceMemory, append(slices.Clone(machineOnly), memory...)},
		{"proc/meminfo", "MemTotal: many kB\n", SourceMemory, append(slices.Clone(machineOnly), memory...)},
		{"proc/meminfo", "MemTotal: 1 kB\nMemAvailable: 2 kB\n", SourceMemory + ".MemAvailable", []string{"SwapTotalBytes", "SwapUsedBytes"}},
		{"proc/vmstat", "oom_kill many\n", SourceOutOfMemory, []string{"OutOfMemoryKills"}},
		{"sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "many\n", SourceHugePages, nil},
		{"sys/kernel/mm/hugepages/hugepages-1PBkB/nr_hugepages", "0\n", SourceHugePages, nil},
		{group + "memory.max", "lots\n", SourceMemoryCgroup, nil},
		{"sys/fs/cgroup/system.slice/memory.max", "", SourceMemoryCgroup, nil},
		{group + "memory.current", "-1\n", SourceMemoryCgroup, nil},
		{group + "memory.stat", "inactive_file 1\n", SourceMemoryCgroup, nil},
		{group + "memory.stat", "inactive_file one\n", SourceMemoryCgroup, nil},
		{"proc/stat", "", SourceCPU, cpu},
		{"proc/stat", "cpu0 a b c d e f g\n", SourceCPU, []string{"CPUUsedMillis"}},
		{group + "cpu.max", "100000\n", SourceCPUCgroup, nil},
		{group + "cpu.max", "100000 0\n", SourceCPUCgroup, nil},
		{group + "cpu.stat", "usage_sec 1\n", SourceCPUCgroup, cpu},
		{group + "cpuset.cpus.effective", "3-1\n", SourceCPUCgroup, nil},
		{"proc/loadavg", "", SourceLoad, []string{"Load1Millis"}},
		{"proc/loadavg", "NaN 0 0\n", SourceLoad, []string{"Load1Millis"}},
		{"proc/pressure/memory", "some\n", SourcePressure, stalls},
		{group + "memory.pressure", "full avg10=1.00 avg60=0 avg300=0 total=0\n", SourcePressure, stalls},
		{"proc/pressure/cpu", "some avg10=-1 avg60=0 avg300=0 total=0\n", SourcePressure, []string{"CPUSomeAvg10"}},
	} {
		t.Run(broken.file+" "+strings.TrimSpace(broken.data), func(t *testing.T) {
			machine := newMachine(t)
			later, _ := machine.load("testdata/machines/v2.txtar")
			machine.write(broken.file, broken.data)
			delete(later, broken.file)
			meter := machine.meter(Options{})
			meter.Sample(t.Context())
			machine.now = machine.now.Add(10 * time.Second)
			for name, data := range later {
				machine.write(name, data)
			}
			got := meter.Sample(t.Context())
			if diff := cmp.Diff([]string{broken.source}, sortedKeys(got.Degraded)); diff != "" {
				t.Errorf("degraded, -want +got:\n%s", diff)
			}
			slices.Sort(broken.lost)
			if diff := cmp.Diff(broken.lost, unknown(got)); diff != "" {
				t.Errorf("unknown fields, -want +got:\n%s", diff)
			}
			if got.Processes != 2 {
				t.Errorf("%d processes, want 2", got.Processes)
			}
		})
	}
}

// unknown names the fields that are nil.
func unknown(s Sample) []string {
	var names []string
	for name, is := range map[string]bool{
		"MemoryTotalBytes":     s.MemoryTotalBytes == nil,
		"MemoryAvailableBytes": s.MemoryAvailableBytes == nil,
		"SwapTotalBytes":       s.SwapTotalBytes == nil,
		"SwapUsedBytes":        s.SwapUsedBytes == nil,
		"HugePagesTotalBytes":  s.HugePagesTotalBytes == nil,
		"HugePagesFreeBytes":   s.HugePagesFreeBytes == nil,
		"OutOfMemoryKills":     s.OutOfMemoryKills == nil,
		"CPUTotalMillis":       s.CPUTotalMillis == nil,
		"CPUUsedMillis":        s.CPUUsedMillis == nil,
		"Load1Millis":          s.Load1Millis == nil,
		"MemorySomeAvg10":      s.MemorySomeAvg10 == nil,
		"MemoryFullAvg10":      s.MemoryFullAvg10 == nil,
		"CPUSomeAvg10":         s.CPUSomeAvg10 == nil,
	} {
		if is {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func TestNothingThereDegradesEverythingAndNeverFails(t *testing.T) {
	meter := newMachine(t).meter(Options{})
	if _, err := meter.Capacity(t.Context()); err == nil {
		t.Error("a machine without /proc has a capacity")
	}
	got := meter.Sample(t.Context())
	want := []string{SourceCPU, SourceCPUCgroup, SourceLoad, SourceMemory, SourceMemoryCgroup, SourcePressure, SourceProcesses}
	if diff := cmp.Diff(want, sortedKeys(got.Degraded)); diff != "" {
		t.Errorf("degraded, -want +got:\n%s", diff)
	}
	usage := meter.Engines(t.Context(), []Engine{{ID: "a", PID: 1, StartTime: 1}})
	if usage[0].Err == nil || usage[0].ID != "a" {
		t.Errorf("an engine was measured: %+v", usage[0])
	}
}

func TestCapacityReportsLimitsItCannotRead(t *testing.T) {
	machine := newMachine(t)
	machine.load("testdata/machines/v2.txtar")
	machine.write("sys/fs/cgroup/system.slice/memory.max", "broken\n")
	capacity, err := machine.meter(Options{}).Capacity(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{SourceMemoryCgroup}, sortedKeys(capacity.Errors)); diff != "" {
		t.Errorf("errors, -want +got:\n%s", diff)
	}
	if text := capacity.Errors[SourceMemoryCgroup]; !strings.Contains(text, "/system.slice memory.max") {
		t.Errorf("the error does not name the limit: %s", text)
	}
}

// TestBrokenSourcesHeal: an unknown figure is known again as soon as it can be read.
func TestBrokenSourcesHeal(t *testing.T) {
	machine := newMachine(t)
	machine.load("testdata/machines/v2.txtar")
	machine.remove("proc/self/mountinfo")
	meter := machine.meter(Options{})
	if got := meter.Sample(t.Context()); got.MemoryTotalBytes != nil {
		t.Fatal("memory is known without the cgroup mounts")
	}
	machine.load("testdata/machines/v2.txtar")
	if got := meter.Sample(t.Context()); got.MemoryTotalBytes == nil || got.Degraded != nil {
		t.Errorf("still degraded: %v", got.Degraded)
	}
}

func TestConfiguredCgroupCountsInsteadOfTheAgentsOwn(t *testing.T) {
	f := func(cgroup, wantSource string) {
		t.Helper()
		machine := newMachine(t)
		machine.load("testdata/machines/v2.txtar")
		capacity, err := machine.meter(Options{Cgroup: cgroup}).Capacity(context.Background())
		if err != nil || capacity.Errors != nil {
			t.Fatal(err, capacity.Errors)
		}
		if capacity.MemorySource != wantSource {
			t.Errorf("%s: %s, want %s", cgroup, capacity.MemorySource, wantSource)
		}
	}
	f("/", "host")
	f("/system.slice", "cgroup /system.slice memory.max")

	machine := newMachine(t)
	machine.load("testdata/machines/v2.txtar")
	capacity, err := machine.meter(Options{Cgroup: "/no.slice"}).Capacity(t.Context())
	if err != nil || capacity.Errors[SourceMemoryCgroup] == "" {
		t.Errorf("a configured cgroup that does not exist goes unnoticed: %v %v", err, capacity.Errors)
	}
}

// TestASliceWithoutACgroupIsUnderTheLimitsAboveIt: in a container with read-only cgroups, systemd
// creates none for its slices.
func TestASliceWithoutACgroupIsUnderTheLimitsAboveIt(t *testing.T) {
	for _, c := range []struct{ cgroup, wantSource string }{
		{"/system.slice/no.slice/no-engines.slice", "cgroup /system.slice memory.max"},
		{"/no.slice/no-engines.slice", "host"},
	} {
		machine := newMachine(t)
		machine.load("testdata/machines/v2.txtar")
		meter := machine.meter(Options{Cgroup: c.cgroup, CgroupOrAbove: true})
		capacity, err := meter.Capacity(t.Context())
		if err != nil || capacity.Errors != nil || capacity.MemorySource != c.wantSource {
			t.Errorf("%s: %v, %v, limited by %s, want %s", c.cgroup, err, capacity.Errors, capacity.MemorySource, c.wantSource)
		}
		if sample := meter.Sample(t.Context()); sample.MemoryAvailableBytes == nil {
			t.Errorf("%s: memory is not measured: %v", c.cgroup, sample.Degraded)
		}
	}

	// If the mount shows only the container's part, the visible part counts.
	machine := newMachine(t)
	machine.load("testdata/machines/v2.txtar")
	machine.write("proc/self/mountinfo", "26 25 0:23 /system.slice /sys/fs/cgroup/system.slice ro - cgroup2 none ro\n")
	capacity, err := machine.meter(Options{Cgroup: "/no.slice", CgroupOrAbove: true}).Capacity(t.Context())
	if want := "cgroup /system.slice memory.max"; err != nil || capacity.Errors != nil || capacity.MemorySource != want {
		t.Errorf("in a container: %v, %v, limited by %s, want %s", err, capacity.Errors, capacity.MemorySource, want)
	}
}

func TestOptionsThatMakeNoSenseAreRefused(t *testing.T) {
	for name, options := range map[string]Options{
		"relative cgroup":     {Cgroup: "system.slice"},
		"unclean cgroup":      {Cgroup: "/a/../b"},
		"negative threshold":  {SomeAvg10: -1},
		"negative hold":       {PressureHold: -time.Second},
		"negative full avg10": {FullAvg10: -1},
	} {
		if _, err := NewMeter(options); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}

// TestTheMountThatShowsMostCounts: of two mounts of one hierarchy, the one with more ancestors
// shows more limits.
func TestTheMountThatShowsMostCounts(t *testing.T) {
	machine := newMachine(t)
	machine.load("testdata/machines/v2.txtar")
	narrow := "26 25 0:23 /system.slice/agent.service /narrow rw - cgroup2 none rw\n"
	wide := "27 25 0:23 / /sys/fs/cgroup rw - cgroup2 none rw\n"
	machine.write("narrow/memory.max", "max\n")
	machine.write("sys/fs/cgroup/system.slice/memory.max", "1048576\n")
	for _, mounts := range []string{narrow + wide, wide + narrow} {
		machine.write("proc/self/mountinfo", mounts)
		capacity, err := machine.meter(Options{}).Capacity(t.Context())
		if err != nil || capacity.MemoryBytes != 1<<20 {
			t.Errorf("%d bytes from %s, %v", capacity.MemoryBytes, capacity.MemorySource, err)
		}
	}
}

func TestProcessorsThatComeOrGoMakeOneSampleUnknown(t *testing.T) {
	machine := newMachine(t)
	machine.load("testdata/machines/bare.txtar")
	meter := machine.meter(Options{})
	f := func(when, stat string, want string) {
		t.Helper()
		machine.now = machine.now.Add(time.Second)
		machine.write("proc/stat", stat)
		s := meter.Sample(t.Context())
		if got := known(s.CPUUsedMillis); got != want || s.Degraded != nil {
			t.Errorf("%s: %s millis used, want %s; %v", when, got, want, s.Degraded)
		}
	}
	f("first", "cpu 0 0 0 0 0 0 0\ncpu0 100 0 0 100 0 0 0\n", "?")
	f("one busy half of the time", "cpu 0 0 0 0 0 0 0\ncpu0 150 0 0 150 0 0 0\n", "500")
	f("another one came", "cpu 0 0 0 0 0 0 0\ncpu0 200 0 0 200 0 0 0\ncpu1 900 0 0 9000 0 0 0\n", "?")
	f("both at rest", "cpu 0 0 0 0 0 0 0\ncpu0 200 0 0 300 0 0 0\ncpu1 900 0 0 9100 0 0 0\n", "0")
	f("no time has passed", "cpu 0 0 0 0 0 0 0\ncpu0 200 0 0 300 0 0 0\ncpu1 900 0 0 9100 0 0 0\n", "?")
	f("idle time steps back", "cpu 0 0 0 0 0 0 0\ncpu0 300 0 0 290 0 0 0\ncpu1 1000 0 0 9095 0 0 0\n", "2000")
}
