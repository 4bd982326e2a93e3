package host

import "testing"

// TestSwapThatIsTurnedOnIsCounted: on a machine without swap, the swap of engines is not read until
// the machine has some.
func TestSwapThatIsTurnedOnIsCounted(t *testing.T) {
	machine := newMachine(t)
	machine.load("testdata/machines/v2.txtar")
	const group = "sys/fs/cgroup/engines/a/"
	machine.write(group+"memory.current", "1048576\n")
	machine.write(group+"memory.swap.current", "2097152\n")
	machine.write(group+"memory.stat", "inactive_anon 1048576\nactive_anon 0\ninactive_file 0\nactive_file 0\nunevictable 0\n")
	machine.write(group+"cpu.stat", "usage_usec 1\n")
	machine.write(group+"cgroup.procs", "77\n")
	machine.write("proc/77/cgroup", "0::/engines/a\n")
	meter := machine.meter(Options{})
	for _, step := range []struct {
		swap string
		want int64
	}{{"2097152 kB", 2 << 20}, {"0 kB", 0}, {"1024 kB", 2 << 20}} {
		machine.write("proc/meminfo", "MemTotal: 8388608 kB\nMemFree: 1 kB\nMemAvailable: 4194304 kB\nSwapTotal: "+step.swap+"\nSwapFree: 0 kB\n")
		meter.Sample(t.Context())
		usage := meter.Engines(t.Context(), []Engine{{ID: "a", PID: 77, StartTime: 500, Cgroup: "/engines/a"}})[0]
		if usage.Err != nil || usage.SwappedBytes != step.want || usage.UnreclaimableBytes != 1<<20+step.want {
			t.Errorf("swap of %s: %+v, want %d", step.swap, usage, step.want)
		}
	}
}
