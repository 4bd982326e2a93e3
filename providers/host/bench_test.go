package host

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bursar/bursar/internal/cgroupfs"
)

// The budget of design §17: for an agent with 200 engines, a tick every 5 s and 2,000 processes on
// the host, measuring may take 1 % of one core (50 ms per tick) with cgroups, and 3 % (150 ms)
// without. These benchmarks report the measured part of a core, and its ratio to only reading the
// same files.

const (
	benchEngines   = 200
	benchProcesses = 2000
	tick           = 5 * time.Second
)

func BenchmarkEnginesByCgroup(b *testing.B) { benchmarkCgroups(b, 0) }

// Twelve of the engines have created 256 cgroups each below their own: the budget of a tick is 50
// ms all the same.
func BenchmarkEnginesWith3072CgroupsBelow(b *testing.B) { benchmarkCgroups(b, 12) }

func benchmarkCgroups(b *testing.B, wide int) {
	b.Helper()
	machine := newMachine(b)
	machine.write("proc/self/mountinfo", "26 25 0:23 / /sys/fs/cgroup rw - cgroup2 none rw\n")
	engines := fixtureEngines(machine)
	var files []string
	for i := range engines {
		engines[i].Cgroup = fmt.Sprintf("/engines/%d", i)
		directory := "sys/fs/cgroup" + engines[i].Cgroup
		for name, data := range map[string]string{
			"memory.current": "1073741824\n", "memory.stat": realisticMemoryStat, "cpu.stat": "usage_usec 123456\nuser_usec 1\nsystem_usec 2\n",
			"cgroup.procs": fmt.Sprintf("%d\n%d\n", engines[i].PID, engines[i].PID+1),
		} {
			machine.write(directory+"/"+name, data)
			files = append(files, filepath.Join(machine.root, directory, name))
		}
		for n := range mostCgroups {
			if i < wide {
				machine.write(fmt.Sprintf("%s/%d/cgroup.procs", directory, n), "")
			}
		}
		machine.write(fmt.Sprintf("proc/%d/cgroup", engines[i].PID), "0::"+engines[i].Cgroup+"\n")
		files = append(files, fmt.Sprintf("%s/proc/%d/stat", machine.root, engines[i].PID))
	}
	meter, err := NewMeter(Options{Root: machine.root})
	if err != nil {
		b.Fatal(err)
	}
	benchmark(b, meter, engines, files)
}

func BenchmarkEnginesByTree(b *testing.B) {
	machine := newMachine(b)
	machine.write("proc/self/mountinfo", "")
	engines := fixtureEngines(machine)
	files, err := filepath.Glob(filepath.Join(machine.root, "proc/*/stat*"))
	if err != nil {
		b.Fatal(err)
	}
	// status is not read for processes outside engines
	read := files[:0]
	for _, file := range files {
		var pid int32
		if _, err := fmt.Sscanf(filepath.Base(filepath.Dir(file)), "%d", &pid); err != nil {
			b.Fatal(err)
		}
		if filepath.Base(file) == "stat" || pid < benchFirst+5*benchEngines {
			read = append(read, file)
		}
	}
	meter, err := NewMeter(Options{Root: machine.root})
	if err != nil {
		b.Fatal(err)
	}
	benchmark(b, meter, engines, read)
}

// BenchmarkEnginesByRealTree measures 200 engines of 5 processes among 2,000 real ones.
func BenchmarkEnginesByRealTree(b *testing.B) {
	meter, err := NewMeter(Options{})
	if err != nil {
		b.Fatal(err)
	}
	start := func(script string) int32 {
		command := exec.Command("/bin/sh", "-c", script)
		command.SysProcAttr = &unix.SysProcAttr{Setpgid: true}
		out, err := command.StdoutPipe()
		if err != nil {
			b.Fatal(err)
		}
		if err := command.Start(); err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() {
			_ = unix.Kill(-command.Process.Pid, unix.SIGKILL)
			_ = command.Wait()
		})
		if _, err := out.Read(make([]byte, 1)); err != nil {
			b.Fatal(err)
		}
		return int32(command.Process.Pid)
	}
	var engines []Engine
	var files []string
	var s scratch
	for range benchEngines {
		root, err := meter.Identify(start(`for i in 1 2 3 4; do sleep 3600 & done; echo; wait`))
		if err != nil {
			b.Fatal(err)
		}
		engines = append(engines, Engine{ID: fmt.Sprint(root.PID), PID: root.PID, StartTime: root.StartTime})
		start(`for i in 1 2 3 4; do sleep 3600 & done; echo; wait`)
	}
	if err := meter.tracker.forest.table.read(b.Context(), meter, &s); err != nil {
		b.Fatal(err)
	}
	for _, row := range meter.tracker.forest.table.rows {
		files = append(files, meter.file(row.pid, "stat"))
	}
	if usages := meter.Engines(b.Context(), engines); usages[0].Err != nil || usages[0].Processes != 5 {
		b.Fatalf("%+v", usages[0])
	}
	for _, row := range meter.tracker.forest.table.rows {
		if row.owner != nil {
			files = append(files, meter.file(row.pid, "status"))
		}
	}
	benchmark(b, meter, engines, files)
}

func BenchmarkAvailable(b *testing.B) {
	meter, err := NewMeter(Options{})
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := meter.Available(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkSample(b *testing.B) {
	meter, err := NewMeter(Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if s := meter.Sample(b.Context()); s.MemoryAvailableBytes == nil {
			b.Fatal(s.Degraded)
		}
	}
	reportPart(b)
}

func benchmark(b *testing.B, meter *Meter, engines []Engine, files []string) {
	b.Helper()
	for _, usage := range meter.Engines(b.Context(), engines) {
		if usage.Err != nil && !errors.Is(usage.Err, errTooManyCgroups) || !usage.Alive || usage.Processes == 0 {
			b.Fatalf("%+v", usage)
		}
	}
	b.ReportAllocs()
	var bare time.Duration
	for b.Loop() {
		meter.Engines(b.Context(), engines)
		b.StopTimer()
		started := time.Now()
		for _, file := range files {
			if _, err := os.ReadFile(file); err != nil && !cgroupfs.Absent(err) {
				b.Fatal(err)
			}
		}
		bare += time.Since(started)
		b.StartTimer()
	}
	reportPart(b)
	b.ReportMetric(b.Elapsed().Seconds()/bare.Seconds(), "x-bare-reads")
}

// reportPart reports the part of one core that a call on every tick takes.
func reportPart(b *testing.B) {
	b.Helper()
	b.ReportMetric(100*b.Elapsed().Seconds()/float64(b.N)/tick.Seconds(), "%core")
}

// benchFirst is the pid of the first engine's root.
const benchFirst = 1000

// fixtureEngines writes 2,000 processes: 200 engines of 5 processes each, and strangers.
func fixtureEngines(machine *machine) []Engine {
	var engines []Engine
	for i := range int32(benchProcesses) {
		p := fakeProcess{
			pid: benchFirst + i, parent: 1, start: uint64(benchFirst + i), state: "S", threads: 30,
			anon: 1 << 20, file: 4 << 10, pss: -1, image: uint64(benchFirst + i),
		}
		switch {
		case i < 5*benchEngines && i%5 == 0:
			engines = append(engines, Engine{ID: fmt.Sprint(i), PID: p.pid, StartTime: p.start})
		case i < 5*benchEngines:
			p.parent = p.pid - 1 - i%2
			if i%5 == 1 {
				p.parent = p.pid - 1
			}
		}
		machine.run(p)
	}
	return engines
}

// realisticMemoryStat has the lines of Linux 6.1.
const realisticMemoryStat = `anon 209715200
file 812646400
kernel 14680064
kernel_stack 1638400
pagetables 3145728
sec_pagetables 0
percpu 11520
sock 0
vmalloc 16384
shmem 0
zswap 0
zswapped 0
file_mapped 52428800
file_dirty 0
file_writeback 0
swapcached 0
anon_thp 0
file_thp 0
shmem_thp 0
inactive_anon 209600512
active_anon 8192
inactive_file 600000000
active_file 212646400
unevictable 0
slab_reclaimable 8388608
slab_unreclaimable 1048576
slab 9437184
workingset_refault_anon 0
workingset_refault_file 0
workingset_activate_anon 0
workingset_activate_file 0
workingset_restore_anon 0
workingset_restore_file 0
workingset_nodereclaim 0
pgscan 0
pgsteal 0
pgscan_kswapd 0
pgscan_direct 0
pgsteal_kswapd 0
pgsteal_direct 0
pgfault 100000
pgmajfault 10
pgrefill 0
pgactivate 0
pgdeactivate 0
pglazyfree 0
pglazyfreed 0
thp_fault_alloc 0
thp_collapse_alloc 0
`
