package host

import (
	"errors"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseStatTakesAnyProgramName(t *testing.T) {
	f := func(name string) {
		t.Helper()
		line := "42 (" + name + ") S 7 40 30 34816 40 4194304 150 0 0 0 11 22 33 44 20 0 3 0 98765 4096 25 " +
			"18446744073709551615 100 200 300 0 0 0 0 0 0 0 0 0 17 1 0 0 0 0 0\n"
		got, err := parseStat([]byte(line))
		if err != nil {
			t.Fatalf("%q: %v", name, err)
		}
		want := stat{
			pid: 42, parent: 7, group: 40, session: 30, state: 'S', threads: 3,
			own: 33, children: 77, start: 98765, image: image{100, 300},
		}
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(stat{}, image{})); diff != "" {
			t.Errorf("%q, -want +got:\n%s", name, diff)
		}
	}
	f("java")
	f("")
	f("a b")
	f("a) S 1 1 1")
	f("((((")
	f("))))")
	f("two\nlines) Z 1")
	f("\xff\xfe")
}

func TestParseStat(t *testing.T) {
	good := "1 (x) S 0 -1 -1 0 -1 0 0 0 0 0 1 2 3 4 -2 0 1 0 5 0 0"
	if got, err := parseStat([]byte(good)); err != nil || got.group != 0 || got.session != 0 || got.start != 5 {
		t.Errorf("a process that is being removed: %+v, %v", got, err)
	}
	f := func(line string) {
		t.Helper()
		if got, err := parseStat([]byte(line)); !errors.Is(err, errMalformed) {
			t.Errorf("%q: %+v, %v", line, got, err)
		}
	}
	f("")
	f("1 x S 0")
	f(") (")
	f("x (x) S 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 1 0 5")
	f("1 (x) S 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 1 0")                                  // no start time
	f("1 (x) S y 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 1 0 5")                                // not a number
	f("1 (x) S 4294967296 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 1 0 5")                       // no pid
	f("1 (x) S 0 0 0 0 0 0 0 0 0 0 18446744073709551615 0 0 0 0 0 1 0 5")             // more time than there is
	f("1 (x) S 0 0 0 0 0 0 0 0 0 0 99999999999999999999999999999999 0 0 0 0 0 1 0 5") // out of range
}

func TestParseMountinfo(t *testing.T) {
	got, err := parseMountinfo([]byte(`
24 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw
26 25 0:23 / /sys/fs/cgroup rw shared:4 master:1 - cgroup2 none rw
33 30 0:28 /docker/a\040b /sys/fs/cgroup/cpu,cpuacct rw - cgroup none rw,cpu,cpuacct
34 30 0:29 / /mnt/tab\011and\134 rw - cgroup none rw,memory
35 30 0:29 /a /over rw - cgroup none rw,pids
36 30 0:29 /b /over rw - cgroup none rw,cpuset
`))
	if err != nil {
		t.Fatal(err)
	}
	want := []cgroupMount{
		{root: "/", point: "/sys/fs/cgroup"},
		{root: "/docker/a b", point: "/sys/fs/cgroup/cpu,cpuacct", controllers: []string{"rw", "cpu", "cpuacct"}},
		{root: "/", point: "/mnt/tab\tand\\", controllers: []string{"rw", "memory"}},
		{root: "/b", point: "/over", controllers: []string{"rw", "cpuset"}},
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(cgroupMount{})); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	f := func(line string) {
		t.Helper()
		if got, err := parseMountinfo([]byte(line)); !errors.Is(err, errMalformed) {
			t.Errorf("%q: %v, %v", line, got, err)
		}
	}
	f("garbage")
	f("24 1 8:1 / / rw,relatime ext4 /dev/sda1 rw")
	f("24 1 8:1 - cgroup2 x rw")
	f("24 1 8:1 / / rw - cgroup none")
	f("24 1 8:1 a b rw - cgroup2 cgroup rw")
}

func TestParseCgroup(t *testing.T) {
	got, err := parseCgroup([]byte("12:cpu,cpuacct:/a:b\n3:name=systemd:/x\n2:memory:/gone (deleted)\n0::/u\n"))
	if err != nil {
		t.Fatal(err)
	}
	want := cgroupPaths{"cpu": "/a:b", "cpuacct": "/a:b", "name=systemd": "/x", "memory": "/gone", unified: "/u"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	for _, line := range []string{"x", "1:memory", "1:memory:relative", "0:/a"} {
		if _, err := parseCgroup([]byte(line)); !errors.Is(err, errMalformed) {
			t.Errorf("%q: %v", line, err)
		}
	}
}

func TestParseMemoryStatOfEachVersion(t *testing.T) {
	f := func(name string, v1 bool, data string, want memoryStat) {
		t.Helper()
		got, err := parseMemoryStat([]byte(data), v1)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got != want {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
	}
	lists := "inactive_anon 1\nactive_anon 2\ninactive_file 4\nactive_file 8\nunevictable 16\n"
	f("version 2 since 5.18", false, lists+"kernel 1000\nkernel_stack 1\npagetables 1\nslab_reclaimable 300\nslab_unreclaimable 1\nsock 32\n",
		memoryStat{file: 12, pinned: 19, kernel: 732, slab: 300})
	f("version 2 before", false, lists+"kernel_stack 1\npagetables 2\npercpu 4\nslab_reclaimable 300\nslab_unreclaimable 8\nsock 32\n",
		memoryStat{file: 12, pinned: 19, kernel: 47, slab: 300})
	f("version 1", true, "inactive_anon 900\nhierarchical_memory_limit 5\ntotal_cache 7\ntotal_inactive_anon 1\ntotal_active_anon 2\n"+
		"total_inactive_file 4\ntotal_active_file 8\ntotal_unevictable 16\n", memoryStat{file: 12, pinned: 19, limit: 5})
	f("version 1 without a limit", true, "hierarchical_memory_limit 9223372036854710272\ntotal_inactive_anon 0\ntotal_active_anon 0\n"+
		"total_inactive_file 0\ntotal_active_file 0\ntotal_unevictable 0\n", memoryStat{})
	f("beyond 2^63", false, "inactive_anon 18446744073709551615\nactive_anon 1\ninactive_file 0\nactive_file 0\nunevictable 0\n",
		memoryStat{pinned: 1<<63 - 1})
	if _, err := parseMemoryStat([]byte(lists), true); !errors.Is(err, errMalformed) {
		t.Errorf("version 1 without totals: %v", err)
	}
}

func TestParseCPU(t *testing.T) {
	f := func(data string, want int64, limited bool) {
		t.Helper()
		got, isLimit, err := parseCPUMax([]byte(data))
		if err != nil || got != want || isLimit != limited {
			t.Errorf("cpu.max %q: %d, %v, %v", data, got, isLimit, err)
		}
	}
	f("max 100000\n", 0, false)
	f("150000 100000\n", 1500, true)
	f("1000 100000\n", 10, true)
	g := func(data string, want int64) {
		t.Helper()
		if got, err := parseCPUList([]byte(data)); err != nil || got != want {
			t.Errorf("processors %q: %d, %v", data, got, err)
		}
	}
	g("\n", 0)
	g("3\n", 1)
	g("0-3,8,10-11\n", 7)
	for _, bad := range []string{"3-1", "a", "1,,2", "0-99999999", "-1"} {
		if got, err := parseCPUList([]byte(bad)); err == nil {
			t.Errorf("processors %q: %d", bad, got)
		}
	}
}

func TestParseMapped(t *testing.T) {
	f := func(data string, want mapped, wantErr error) {
		t.Helper()
		if got, err := parseMapped([]byte(data)); got != want || !errors.Is(err, wantErr) {
			t.Errorf("%q: %+v, %v", data, got, err)
		}
	}
	f("Name:\tx\nVmRSS:\t  12 kB\nRssAnon:\t   4 kB\nRssFile:\t 8 kB\nRssShmem:\t 0 kB\n", mapped{anonymous: 4096, file: 8192}, nil)
	f("VmRSS:\t 0 kB\nRssAnon:\t 0 kB\nRssFile:\t 0 kB\nRssShmem:\t 0 kB\nVmSwap:\t 12 kB\nHugetlbPages:\t 2048 kB\n", mapped{swapped: 12288}, nil)
	f("Name:\tkthreadd\nThreads:\t1\n", mapped{}, nil)
	f("VmRSS:\t  12 kB\nVmSwap:\t  4 kB\n", mapped{swapped: 4096}, errNoSplit)
	f("RssAnon:\t 12 MB\n", mapped{}, errMalformed)
	f("RssAnon:\t x kB\n", mapped{}, errMalformed)

	page := int64(os.Getpagesize())
	if got, err := parseStatm([]byte("100 50 20 1 0 30 0\n")); err != nil || got != (mapped{anonymous: 30 * page, file: 20 * page}) {
		t.Errorf("statm: %+v, %v", got, err)
	}
	if _, err := parseStatm([]byte("100 50")); !errors.Is(err, errMalformed) {
		t.Errorf("short statm: %v", err)
	}
}

func TestParseProportional(t *testing.T) {
	got, err := parseProportional([]byte("0-1 ---p 0 00:00 0 [rollup]\nPss: 9 kB\nPss_Anon:  3 kB\nPss_File: 2 kB\nPss_Shmem: 4 kB\nPrivate_Hugetlb: 2048 kB\nSwap: 20 kB\nSwapPss: 5 kB\n"))
	if want := (proportional{bytes: 12 << 10, swapped: 5 << 10}); err != nil || got != want {
		t.Errorf("%+v, %v", got, err)
	}
	got, err = parseProportional([]byte("Pss_Anon:  3 kB\nPss_Shmem: 4 kB\n"))
	if want := (proportional{bytes: 7 << 10}); err != nil || got != want {
		t.Errorf("a kernel without swap: %+v, %v", got, err)
	}
	if _, err := parseProportional([]byte("Pss: 9 kB\n")); !errors.Is(err, errNoSplit) {
		t.Errorf("before 5.4: %v", err)
	}
}

func TestParseOwner(t *testing.T) {
	uid, pid, err := parseOwner([]byte("Name:\tUid: 5\nTgid:\t77\nPid:\t78\nUid:\t1000\t0\t0\t0\n"))
	if err != nil || uid != 1000 || pid != 77 {
		t.Errorf("%d, %d, %v", uid, pid, err)
	}
	for _, bad := range []string{"", "Tgid:\t1\n", "Uid:\t1\n", "Uid:\t-1\nTgid:\t1\n", "Uid:\t1\nTgid:\t4294967295\n"} {
		if _, _, err := parseOwner([]byte(bad)); !errors.Is(err, errMalformed) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func TestWithin(t *testing.T) {
	f := func(root, name, want string, ok bool) {
		t.Helper()
		if got, found := within(root, name); got != want || found != ok {
			t.Errorf("%s below %s: %q, %v", name, root, got, found)
		}
	}
	f("/", "/", "/", true)
	f("/", "/a/b", "/a/b", true)
	f("/a", "/a", "/", true)
	f("/a", "/a/b", "/b", true)
	f("/a", "/ab", "", false)
	f("/a/b", "/a", "", false)
	f("/..", "/", "", false)   // the mount begins outside of our namespace
	f("/", "/../x", "", false) // the process is outside of it
}
