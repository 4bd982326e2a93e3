package host

import (
	"testing"
	"time"
)

// TestTheMachineGrowsAndShrinks changes memory, processors, huge pages and limits between two
// samples. The next capacity and the next sample show the change. CPU use is known again from the
// second sample after a change of processors.
func TestTheMachineGrowsAndShrinks(t *testing.T) {
	machine := newMachine(t)
	machine.load("testdata/machines/v2.txtar")
	const service = "sys/fs/cgroup/system.slice/agent.service/"
	meter := machine.meter(Options{})
	for _, step := range []struct {
		why, file, data string
		memory, cpu     string
	}{
		{"as it was", "proc/loadavg", "0 0 0 1/1 1\n", "7 GiB", "2500"},
		{"the service's limits are lifted", service + "memory.high", "max\n", "8 GiB", "2500"},
		{"", service + "cpu.max", "max 100000\n", "8 GiB", "3000"},
		{"so are the slice's", "sys/fs/cgroup/system.slice/memory.max", "max\n", "16 GiB", "3000"},
		{"", "sys/fs/cgroup/system.slice/cpuset.cpus.effective", "0-7\n", "16 GiB", "4000"},
		{"memory is plugged in", "proc/meminfo", "MemTotal: 33554432 kB\nMemFree: 20000000 kB\nMemAvailable: 25165824 kB\n", "32 GiB", "4000"},
		{"a processor too", "proc/stat", "cpu 0 0 0 0 0 0 0\ncpu0 1 0 0 1 0 0 0\ncpu1 1 0 0 1 0 0 0\ncpu2 1 0 0 1 0 0 0\ncpu3 1 0 0 1 0 0 0\ncpu4 1 0 0 1 0 0 0\n", "32 GiB", "5000"},
		{"memory goes to huge pages", "sys/kernel/mm/hugepages/hugepages-1048576kB/free_hugepages", "8\n", "32 GiB", "5000"},
		{"", "sys/kernel/mm/hugepages/hugepages-1048576kB/resv_hugepages", "0\n", "32 GiB", "5000"},
		{"", "sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages", "8\n", "24 GiB", "5000"},
		{"a container's limit is set while it runs", service + "memory.max", "1073741824\n", "1 GiB", "5000"},
		{"", service + "cpu.max", "20000 100000\n", "1 GiB", "200"},
		{"processors are unplugged", "proc/stat", "cpu 0 0 0 0 0 0 0\ncpu0 1 0 0 1 0 0 0\n", "1 GiB", "200"},
	} {
		// The kernel creates the directory of a size with all its files at once.
		if step.file == "sys/kernel/mm/hugepages/hugepages-1048576kB/free_hugepages" {
			machine.write("sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages", "0\n")
		}
		machine.write(step.file, step.data)
		machine.now = machine.now.Add(time.Second)
		capacity, err := meter.Capacity(t.Context())
		if err != nil || capacity.Errors != nil {
			t.Fatal(step.file, err, capacity.Errors)
		}
		sample := meter.Sample(t.Context())
		if size(&capacity.MemoryBytes) != step.memory || size(sample.MemoryTotalBytes) != step.memory {
			t.Errorf("%s %s: memory %s, in the sample %s, want %s", step.why, step.file, size(&capacity.MemoryBytes), size(sample.MemoryTotalBytes), step.memory)
		}
		if known(&capacity.CPUMillis) != step.cpu || known(sample.CPUTotalMillis) != step.cpu {
			t.Errorf("%s %s: CPU %d, in the sample %s, want %s", step.why, step.file, capacity.CPUMillis, known(sample.CPUTotalMillis), step.cpu)
		}
	}
}

func TestHugePagesThatTakeAllMemoryAreNoCapacity(t *testing.T) {
	machine := newMachine(t)
	machine.load("testdata/machines/bare.txtar")
	machine.write("sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "2048\n")
	machine.write("sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages", "1\n")
	machine.write("sys/kernel/mm/hugepages/hugepages-2048kB/resv_hugepages", "7\n")
	meter := machine.meter(Options{})
	if capacity, err := meter.Capacity(t.Context()); err == nil {
		t.Errorf("%d bytes are left", capacity.MemoryBytes)
	}
	if sample := meter.Sample(t.Context()); sample.MemoryTotalBytes != nil || sample.Degraded[SourceMemory] == "" {
		t.Errorf("%+v", sample)
	}
	machine.write("sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "1024\n")
	sample := meter.Sample(t.Context())
	if size(sample.MemoryTotalBytes) != "2 GiB" || size(sample.HugePagesTotalBytes) != "2 GiB" || *sample.HugePagesFreeBytes != 0 {
		t.Errorf("memory %s, huge pages %s, free %s", size(sample.MemoryTotalBytes), size(sample.HugePagesTotalBytes), size(sample.HugePagesFreeBytes))
	}
	machine.write("sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "9223372036854775807\n")
	if sample := meter.Sample(t.Context()); sample.Degraded[SourceHugePages] == "" {
		t.Errorf("a number that cannot be is believed: %+v", sample)
	}
}
