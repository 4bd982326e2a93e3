package cgroupfs

import (
	"path"
	"strings"
	"testing"
)

// The kernel writes what is read here, so that nobody can send it; but a cgroup's name is
// anybody's choice, and the files of a fuse file system over /proc (as lxcfs mounts) are not the
// kernel's. No input may make the parsers panic or return a negative quantity.

func FuzzParseMountinfo(f *testing.F) {
	f.Add([]byte("34 30 0:29 /a\\040 /mnt\\011 rw - cgroup none rw,memory\n26 25 0:23 / / rw shared:4 - cgroup2 x rw\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		mounts, err := ParseMounts(data)
		if err != nil {
			return
		}
		points := map[string]bool{}
		for _, mount := range mounts {
			if points[mount.Point] || !path.IsAbs(mount.Root) || !path.IsAbs(mount.Point) {
				t.Errorf("%q: %+v", data, mounts)
			}
			points[mount.Point] = true
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
		paths, err := ParsePaths(data)
		if err != nil {
			return
		}
		for controller, name := range paths {
			below, ok := Within("/", name)
			if ok && (!path.IsAbs(below) || path.Clean(below) != below) {
				t.Errorf("%q: %s is at %q", data, controller, below)
			}
			// Whatever the name, climbing from it ends at the mount point.
			at := Place{Point: "/mnt", Root: "/", Name: below}
			if ok && at.Ancestry()[len(at.Ancestry())-1].Name != "/" {
				t.Errorf("%q: %v", data, at.Ancestry())
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
		got, err := ParseMemoryStat(data, v1)
		if err != nil {
			return
		}
		if got.Limit < 0 || got.Unreclaimable() < 0 || got.Held(usage) < 0 || got.Held(usage) > usage {
			t.Errorf("%q: %+v, held %d of %d", data, got, got.Held(usage), usage)
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
			"number":     Number,
			"cpu.max":    func(d []byte) (int64, error) { v, _, err := ParseCPUMax(d); return v, err },
			"memory.max": func(d []byte) (int64, error) { v, _, err := ParseMemoryMax(d); return v, err },
		} {
			if got, err := parse(data); err == nil && got < 0 {
				t.Errorf("%s %q: %d", name, data, got)
			}
		}
	})
}
