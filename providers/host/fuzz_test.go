package host

import (
	"fmt"
	"path"
	"strings"
	"testing"
)

// The parsers read what the kernel writes, so that nobody can send them anything; but a program's name and a cgroup's are anybody's
// choice, and the files of a fuse file system over /proc (as lxcfs mounts) are not the kernel's. No input may make them panic
// or return a negative quantity.

func FuzzParseStat(f *testing.F) {
	f.Add([]byte("1 (a) b) S 0 1 1 0 -1 0 0 0 0 0 1 2 3 4 20 0 1 0 5 0 0 0 1 2 3"), "x) R")
	f.Fuzz(func(t *testing.T, data []byte, name string) {
		if got, err := parseStat(data); err == nil && (got.parent < 0 || got.group < 0 || got.session < 0 || got.threads < 0) {
			t.Errorf("%q: %+v", data, got)
		}
		got, err := parseStat(fmt.Appendf(nil, "12 (%s) R 3 4 5 0 -1 0 0 0 0 0 1 2 3 4 20 0 6 0 7 0 0", name))
		want := stat{pid: 12, parent: 3, group: 4, session: 5, state: 'R', threads: 6, own: 3, children: 7, start: 7}
		if err != nil || got != want {
			t.Errorf("named %q: %+v, %v", name, got, err)
		}
	})
}

func FuzzParseMountinfo(f *testing.F) {
	f.Add([]byte("34 30 0:29 /a\\040 /mnt\\011 rw - cgroup none rw,memory\n26 25 0:23 / / rw shared:4 - cgroup2 x rw\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		mounts, err := parseMountinfo(data)
		if err != nil {
			return
		}
		points := map[string]bool{}
		for _, mount := range mounts {
			if points[mount.point] || !path.IsAbs(mount.root) || !path.IsAbs(mount.point) {
				t.Errorf("%q: %+v", data, mounts)
			}
			points[mount.point] = true
		}
	})
}

func FuzzUnescape(f *testing.F) {
	f.Add("a b\\c\td\n")
	escape := strings.NewReplacer(" ", `\040`, "\t", `\011`, "\n", `\012`, `\`, `\134`)
	f.Fuzz(func(t *testing.T, name string) {
		if got := unescape(escape.Replace(name)); got != name {
			t.Errorf("%q became %q", name, got)
		}
	})
}

func FuzzParseCgroup(f *testing.F) {
	f.Add([]byte("12:cpu,cpuacct:/a:b\n0::/u (deleted)\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		paths, err := parseCgroup(data)
		if err != nil {
			return
		}
		for controller, name := range paths {
			below, ok := within("/", name)
			if ok && (!path.IsAbs(below) || path.Clean(below) != below) {
				t.Errorf("%q: %s is at %q", data, controller, below)
			}
			// Whatever the name, climbing from it ends at the mount point.
			at := place{point: "/mnt", root: "/", name: below}
			if ok && at.ancestry()[len(at.ancestry())-1].name != "/" {
				t.Errorf("%q: %v", data, at.ancestry())
			}
		}
	})
}

func FuzzParseMemoryStat(f *testing.F) {
	f.Add([]byte("inactive_anon 1\nactive_anon 2\ninactive_file 4\nactive_file 8\nunevictable 16\nkernel 9\nsock 1\n"), false, int64(100))
	f.Add([]byte("hierarchical_memory_limit 5\ntotal_inactive_anon 1\ntotal_active_anon 2\ntotal_inactive_file 4\n"+
		"total_active_file 8\ntotal_unevictable 16\n"), true, int64(5))
	f.Fuzz(func(t *testing.T, data []byte, v1 bool, usage int64) {
		usage = max(0, usage)
		got, err := parseMemoryStat(data, v1)
		if err != nil {
			return
		}
		if got.limit < 0 || got.unreclaimable() < 0 || got.held(usage) < 0 || got.held(usage) > usage {
			t.Errorf("%q: %+v, held %d of %d", data, got, got.held(usage), usage)
		}
	})
}

func FuzzParseNumbers(f *testing.F) {
	f.Add([]byte("max 100000\n"))
	f.Add([]byte("150000 100000\n"))
	f.Add([]byte("0-3,8\n"))
	f.Add([]byte("9223372036854771712\n"))
	f.Add([]byte("usage_usec 12\nuser_usec 1\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		for name, parse := range map[string]func([]byte) (int64, error){
			"cpu list": parseCPUList, "number": number, "usage_usec": parseUsageUsec,
			"cpu.max":    func(d []byte) (int64, error) { v, _, err := parseCPUMax(d); return v, err },
			"memory.max": func(d []byte) (int64, error) { v, _, err := memoryMax(d); return v, err },
		} {
			if got, err := parse(data); err == nil && got < 0 {
				t.Errorf("%s %q: %d", name, data, got)
			}
		}
	})
}

func FuzzParsePressure(f *testing.F) {
	f.Add([]byte("some avg10=12.34 avg60=0.00 avg300=0.00 total=0\nfull avg10=0.10 avg60=0.00 avg300=0.00 total=0\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := parsePressure(data)
		if err == nil && (got.some == nil || *got.some < 0 || got.full != nil && *got.full < 0) {
			t.Errorf("%q: %+v", data, got)
		}
	})
}

func FuzzParseProcessMemory(f *testing.F) {
	f.Add([]byte("Tgid:\t7\nUid:\t1\t1\t1\t1\nVmRSS:\t 12 kB\nRssAnon:\t 4 kB\nRssFile:\t 8 kB\nRssShmem:\t 0 kB\n"))
	f.Add([]byte("100 50 20 1 0 30 0\n"))
	f.Add([]byte("Pss_Anon:  3 kB\nPss_Shmem: 4 kB\nSwapPss: 5 kB\n"))
	f.Add([]byte("VmSwap:\t 9 kB\nHugetlbPages:\t 2048 kB\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if got, err := parseMapped(data); err == nil && (got.anonymous < 0 || got.shared < 0 || got.file < 0 || got.swapped < 0) {
			t.Errorf("status %q: %+v", data, got)
		}
		if got, err := parseStatm(data); err == nil && (got.anonymous < 0 || got.file < 0) {
			t.Errorf("statm %q: %+v", data, got)
		}
		if got, err := parseProportional(data); err == nil && (got.swapped < 0 || got.bytes < got.swapped) {
			t.Errorf("smaps_rollup %q: %+v", data, got)
		}
		if _, pid, err := parseOwner(data); err == nil && pid < 0 {
			t.Errorf("status %q: pid %d", data, pid)
		}
	})
}
