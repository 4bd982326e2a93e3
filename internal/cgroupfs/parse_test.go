package cgroupfs

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseMountinfo(t *testing.T) {
	got, err := ParseMounts([]byte(`
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
	want := []Mount{
		{Root: "/", Point: "/sys/fs/cgroup"},
		{Root: "/docker/a b", Point: "/sys/fs/cgroup/cpu,cpuacct", Controllers: []string{"rw", "cpu", "cpuacct"}},
		{Root: "/", Point: "/mnt/tab\tand\\", Controllers: []string{"rw", "memory"}},
		{Root: "/b", Point: "/over", Controllers: []string{"rw", "cpuset"}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	f := func(line string) {
		t.Helper()
		if got, err := ParseMounts([]byte(line)); !errors.Is(err, ErrMalformed) {
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
	got, err := ParsePaths([]byte("12:cpu,cpuacct:/a:b\n3:name=systemd:/x\n2:memory:/gone (deleted)\n0::/u\n"))
	if err != nil {
		t.Fatal(err)
	}
	want := Paths{"cpu": "/a:b", "cpuacct": "/a:b", "name=systemd": "/x", "memory": "/gone", Unified: "/u"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	for _, line := range []string{"x", "1:memory", "1:memory:relative", "0:/a"} {
		if _, err := ParsePaths([]byte(line)); !errors.Is(err, ErrMalformed) {
			t.Errorf("%q: %v", line, err)
		}
	}
}

func TestParseMemoryStatOfEachVersion(t *testing.T) {
	f := func(name string, v1 bool, data string, want MemoryStat) {
		t.Helper()
		got, err := ParseMemoryStat([]byte(data), v1)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got != want {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
	}
	lists := "inactive_anon 1\nactive_anon 2\ninactive_file 4\nactive_file 8\nunevictable 16\n"
	f("version 2 since 5.18", false, lists+"kernel 1000\nkernel_stack 1\npagetables 1\nslab_reclaimable 300\nslab_unreclaimable 1\nsock 32\n",
		MemoryStat{File: 12, Pinned: 19, Kernel: 732, Slab: 300})
	f("version 2 before", false, lists+"kernel_stack 1\npagetables 2\npercpu 4\nslab_reclaimable 300\nslab_unreclaimable 8\nsock 32\n",
		MemoryStat{File: 12, Pinned: 19, Kernel: 47, Slab: 300})
	f("version 1", true, "inactive_anon 900\nhierarchical_memory_limit 5\ntotal_cache 7\ntotal_inactive_anon 1\ntotal_active_anon 2\n"+
		"total_inactive_file 4\ntotal_active_file 8\ntotal_unevictable 16\n", MemoryStat{File: 12, Pinned: 19, Lazy: 5, Limit: 5})
	f("version 1 without a limit", true, "hierarchical_memory_limit 9223372036854710272\ntotal_inactive_anon 0\ntotal_active_anon 0\n"+
		"total_inactive_file 0\ntotal_active_file 0\ntotal_unevictable 0\n", MemoryStat{})
	f("beyond 2^63", false, "inactive_anon 18446744073709551615\nactive_anon 1\ninactive_file 0\nactive_file 0\nunevictable 0\n",
		MemoryStat{Pinned: 1<<63 - 1})
	if _, err := ParseMemoryStat([]byte(lists), true); !errors.Is(err, ErrMalformed) {
		t.Errorf("version 1 without totals: %v", err)
	}
}

func TestWithin(t *testing.T) {
	f := func(root, name, want string, ok bool) {
		t.Helper()
		if got, found := Within(root, name); got != want || found != ok {
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

func TestParseCPU(t *testing.T) {
	f := func(data string, want int64, limited bool) {
		t.Helper()
		got, isLimit, err := ParseCPUMax([]byte(data))
		if err != nil || got != want || isLimit != limited {
			t.Errorf("cpu.max %q: %d, %v, %v", data, got, isLimit, err)
		}
	}
	f("max 100000\n", 0, false)
	f("150000 100000\n", 1500, true)
	f("1000 100000\n", 10, true)
}
