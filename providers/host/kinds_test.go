package host

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// The tests in this file cover the table "How each kind of memory counts" in docs/concepts.md,
// together with the scripts lazy, forked-by-a-stranger, swap, swap-cgroups-v1 and -v2 and memory in
// testdata/engines.

// TestWhatMemAvailableDoesNotSay: memory that its owner can claim back is not available, and the
// cache of ZFS is.
func TestWhatMemAvailableDoesNotSay(t *testing.T) {
	const arc, sharing = "proc/spl/kstat/zfs/arcstats", "sys/kernel/mm/ksm/pages_sharing"
	stats := func(size, least string) string {
		return "13 1 0x01 123 33456 5 6\nname                            type data\nhits                            4    1\n" +
			"c_min                           4    " + least + "\nsize                            4    " + size + "\n"
	}
	f := func(name, available, source string, files ...string) {
		t.Helper()
		machine := newMachine(t)
		machine.load("testdata/machines/bare.txtar")
		machine.write("proc/meminfo", oddMeminfo(nil))
		for i := 0; i < len(files); i += 2 {
			machine.write(files[i], files[i+1])
		}
		sample := machine.meter(Options{}).Sample(t.Context())
		if _, named := sample.Degraded[source]; size(sample.MemoryAvailableBytes) != available || named != (source != "") || !named && sample.Degraded != nil {
			t.Errorf("%s: %s available, %v; want %s", name, size(sample.MemoryAvailableBytes), sample.Degraded, available)
		}
	}
	lists := func(active, inactive string) string {
		return oddMeminfo(map[string]string{"Active(file)": "Active(file): " + active + " kB", "Inactive(file)": "Inactive(file): " + inactive + " kB"})
	}
	f("nothing", "6 GiB", "")
	f("lazily freed, 1 GiB", "5 GiB", "", "proc/meminfo", lists("1048576", "2097152"))
	f("lazily freed, no more than there is anonymous memory", "4 GiB", "", "proc/meminfo", lists("1048576", "7340032"))
	f("locked files are on neither list", "6 GiB", "", "proc/meminfo", lists("0", "1048576"))
	f("with shared memory and a swap cache", "5 GiB", "", "proc/meminfo", oddMeminfo(map[string]string{
		"Inactive(file)": "Inactive(file): 2097152 kB", "Cached": "Cached: 3145728 kB\nSwapCached: 524288 kB", "Shmem": "Shmem: 1048576 kB",
	}))
	f("merged by KSM, 512 MiB", "5.5 GiB", "", sharing, "131072\n")
	f("merged by KSM, more than there is", "0 B", "", sharing, "1310720000\n")
	f("merged by KSM, odd", "6 GiB", SourceMergedPages, sharing, "many\n")
	f("merged by KSM, out of range", "6 GiB", SourceMergedPages, sharing, "18446744073709551615\n")
	f("ZFS, 1 GiB above its least", "7 GiB", "", arc, stats("1610612736", "536870912"))
	f("ZFS, below its least", "6 GiB", "", arc, stats("268435456", "536870912"))
	f("ZFS, as much as there is", "8 GiB", "", arc, stats("8589934592", "0"))
	f("ZFS, more than there is", "6 GiB", SourceZFS, arc, stats("18446744073709551615", "536870912"))
	f("ZFS, without c_min", "6 GiB", SourceZFS, arc, strings.ReplaceAll(stats("1610612736", "1"), "c_min", "c_max"))
	f("ZFS, odd", "6 GiB", SourceZFS, arc, stats("-1", "1"))
	f("ZFS, empty", "6 GiB", SourceZFS, arc, "")
}

// engineCgroup makes a machine with cgroups of a version, and an engine in its own cgroup.
func engineCgroup(t *testing.T, v1 bool, stat string, files ...string) (*machine, Engine) {
	t.Helper()
	machine := newMachine(t)
	machine.load("testdata/machines/bare.txtar")
	place := "sys/fs/cgroup/e/a/"
	machine.write("proc/self/mountinfo", "26 25 0:23 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n") //nolint:dupword // its columns
	machine.write("proc/100/cgroup", "0::/e/a\n")
	if v1 {
		machine.write("proc/self/mountinfo", "26 25 0:23 / /sys/fs/cgroup rw - cgroup cgroup rw,memory,cpuacct\n") //nolint:dupword // its columns
		machine.write("proc/100/cgroup", "1:memory,cpuacct:/e/a\n")
	}
	machine.write("proc/self/cgroup", "")
	machine.write(place+"memory.stat", stat)
	machine.write(place+"cgroup.procs", "100\n")
	machine.write(place+"cpuacct.usage", "7000000000\n")
	machine.write(place+"cpu.stat", "usage_usec 7000000\n")
	for i := 0; i < len(files); i += 2 {
		machine.write(place+files[i], files[i+1])
	}
	machine.run(fakeProcess{pid: 100, parent: 1, start: 100, state: "S", threads: 1, anon: 999 << 10, pss: -1})
	return machine, Engine{ID: "a", PID: 100, StartTime: 100, Cgroup: "/e/a"}
}

// mib returns n MiB in bytes.
func mib(n int) string { return fmt.Sprint(n << 20) }

// TestKindsOfMemoryInACgroup: the lists of a cgroup show the touched memory. 300 MiB of anonymous
// memory stay, 100 were given back with MADV_FREE, 50 are shared memory, 200 page cache.
func TestKindsOfMemoryInACgroup(t *testing.T) {
	v2 := "anon " + mib(400) + "\nfile " + mib(250) + "\nshmem " + mib(50) + "\ninactive_anon " + mib(350) + "\nactive_anon 0\ninactive_file " +
		mib(300) + "\nactive_file 0\nunevictable 0\nfile_mapped " + mib(20) + "\n"
	v1 := "cache 1\ntotal_cache " + mib(250) + "\ntotal_rss " + mib(400) + "\ntotal_shmem " + mib(50) + "\ntotal_mapped_file " + mib(20) +
		"\ntotal_inactive_anon " + mib(350) + "\ntotal_active_anon 0\ntotal_inactive_file " + mib(300) + "\ntotal_active_file 0\ntotal_unevictable 0\n"
	for name, test := range map[string]struct {
		v1            bool
		stat          string
		unreclaimable string
	}{
		"version 2": {false, v2, "350 MiB"},
		"version 1": {true, v1, "350 MiB"},
		"version 2, zswap with a compressed 30 MiB":  {false, v2 + "kernel " + mib(40) + "\nzswap " + mib(30) + "\nzswapped " + mib(90) + "\n", "360 MiB"},
		"version 2, huge pages are charged":          {false, v2 + "hugetlb " + mib(64) + "\n", "350 MiB"},
		"version 2, transparent huge pages are none": {false, v2 + "anon_thp " + mib(64) + "\n", "350 MiB"},
	} {
		usageFile := "memory.current"
		if test.v1 {
			usageFile = "memory.usage_in_bytes"
		}
		machine, engine := engineCgroup(t, test.v1, test.stat, usageFile, mib(800)+"\n")
		meter := machine.meter(Options{})
		usage := meter.Engines(t.Context(), []Engine{engine})[0]
		if size(&usage.UnreclaimableBytes) != test.unreclaimable || usage.UnsureBytes != 0 || usage.Err != nil || usage.CPUTime != 7*time.Second {
			t.Errorf("%s: %+v; want %s", name, usage, test.unreclaimable)
		}
		if cache := size(&usage.CacheBytes); cache != "200 MiB" {
			t.Errorf("%s: %s of page cache", name, cache)
		}
		// The machine's lazily freed memory is the engine's 100 MiB and 50 of others. The engine's
		// promise already covers its part, which is not subtracted a second time.
		machine.write("proc/meminfo", oddMeminfo(map[string]string{"Inactive(file)": "Inactive(file): 1202176 kB"}))
		machine.now = machine.now.Add(time.Second)
		sample := meter.Sample(t.Context())
		if got, want := *sample.MemoryAvailableBytes, int64(6<<30-50<<20); got != want {
			t.Errorf("%s: %d MiB available, want %d", name, got>>20, want>>20)
		}
	}
}

// TestMemoryThatIsTouchedAgainInACgroup: pages that were given back with MADV_FREE and then written
// to stay on the list of file pages. Page tables show that 30 of 100 MiB are still given back.
func TestMemoryThatIsTouchedAgainInACgroup(t *testing.T) {
	stat := "file " + mib(200) + "\nshmem 0\ninactive_anon " + mib(300) + "\nactive_anon 0\ninactive_file " + mib(300) + "\nactive_file 0\nunevictable 0\n"
	machine, engine := engineCgroup(t, false, stat, "memory.current", mib(800)+"\n")
	meter := machine.meter(Options{})
	f := func(when, unreclaimable, unsure string, lazy int64) {
		t.Helper()
		machine.now = machine.now.Add(time.Second)
		usage := meter.Engines(t.Context(), []Engine{engine})[0]
		if size(&usage.UnreclaimableBytes) != unreclaimable || size(&usage.UnsureBytes) != unsure || meter.lazyOfEngines.Load()>>20 != lazy {
			t.Errorf("%s: %+v, %d lazy; want %s, unsure %s", when, usage, meter.lazyOfEngines.Load()>>20, unreclaimable, unsure)
		}
	}
	f("nobody may look into it", "300 MiB", "0 B", 100)
	process := fakeProcess{pid: 100, parent: 1, start: 100, state: "S", threads: 1, anon: 400 << 10, pss: 400 << 10, lazy: 30 << 10}
	machine.run(process)
	f("70 MiB touched again", "370 MiB", "0 B", 30)
	meter.tracker.shares.budget = -time.Hour
	f("no time to look again", "370 MiB", "70 MiB", 30)
}

// TestLazilyFreedMemoryInTheHostsOwnLimit: the room under a limit on the path assumes that all
// lazily freed memory is claimed back.
func TestLazilyFreedMemoryInTheHostsOwnLimit(t *testing.T) {
	machine := newMachine(t)
	machine.load("testdata/machines/v2.txtar")
	const stat = "sys/fs/cgroup/system.slice/memory.stat"
	lists := "inactive_anon 0\nactive_anon 0\nactive_file 0\nunevictable 0\n"
	machine.write("sys/fs/cgroup/system.slice/memory.current", mib(5120))
	machine.write("sys/fs/cgroup/system.slice/memory.max", mib(8192))
	machine.write("sys/fs/cgroup/system.slice/agent.service/memory.high", "max\n")
	machine.write("sys/fs/cgroup/system.slice/agent.service/memory.max", "max\n")
	machine.write(stat, lists+"inactive_file "+mib(4096)+"\nfile "+mib(4096)+"\nshmem 0\n")
	meter := machine.meter(Options{})
	if got := size(meter.Sample(t.Context()).MemoryAvailableBytes); got != "7 GiB" {
		t.Errorf("page cache: %s", got)
	}
	machine.write(stat, lists+"inactive_file "+mib(4096)+"\nfile "+mib(1024)+"\nshmem 0\n")
	if got := size(meter.Sample(t.Context()).MemoryAvailableBytes); got != "4 GiB" {
		t.Errorf("3 GiB of it lazily freed: %s", got)
	}
}

// TestMappedDAXFilesAreNoMemory: a file in persistent memory is mapped directly. Kernels that count
// it at all count it as a file.
func TestMappedDAXFilesAreNoMemory(t *testing.T) {
	machine := newMachine(t)
	machine.load("testdata/machines/bare.txtar")
	machine.write("proc/self/mountinfo", "")
	machine.run(fakeProcess{pid: 100, parent: 1, start: 100, state: "S", threads: 1, anon: 8 << 10, file: 64 << 20, pss: -1})
	usage := machine.meter(Options{}).Engines(t.Context(), []Engine{{ID: "a", PID: 100, StartTime: 100}})[0]
	if size(&usage.UnreclaimableBytes) != "8 MiB" || size(&usage.PeakBytes) != "8 MiB" {
		t.Errorf("%+v", usage)
	}
}

// TestMemoryThatIsGivenBackLazily measures a process of this machine.
func TestMemoryThatIsGivenBackLazily(t *testing.T) {
	meter, now := realMeter(t, Options{})
	e := startEngine(t, obedient, nil)
	look := func() int64 {
		usage := measured(t, meter, now, e.engine(meter))
		return (usage.UnreclaimableBytes - usage.UnsureBytes) >> 20
	}
	base := look()
	e.do("touch 256")
	if got := look() - base; got < 250 || got > 262 {
		t.Errorf("256 MiB touched: unreclaimable grew by %d MiB", got)
	}
	e.do("free-lazily")
	if got := look() - base; got > 6 {
		t.Errorf("256 MiB given back: unreclaimable grew by %d MiB", got)
	}
	if lazy := meter.lazyOfEngines.Load() >> 20; lazy < 250 || lazy > 262 {
		t.Errorf("%d MiB were lazily freed, want 256", lazy)
	}
	e.do("touch-again")
	if got := look() - base; got < 250 || got > 262 {
		t.Errorf("touched again: unreclaimable grew by %d MiB", got)
	}
}

// TestWhatCameAndWentIsInThePeak measures a process of this machine.
func TestWhatCameAndWentIsInThePeak(t *testing.T) {
	meter, now := realMeter(t, Options{})
	e := startEngine(t, obedient, nil)
	base := measured(t, meter, now, e.engine(meter)).UnreclaimableBytes >> 20
	e.do("touch 200")
	e.do("untouch")
	usage := measured(t, meter, now, e.engine(meter))
	if got := usage.PeakBytes>>20 - base; got < 190 || got > 210 {
		t.Errorf("200 MiB came and went: the peak is %d MiB above", got)
	}
	if got := usage.UnreclaimableBytes>>20 - base; got > 6 {
		t.Errorf("unreclaimable is %d MiB above", got)
	}
}
