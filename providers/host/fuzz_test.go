package host

import (
	"fmt"
	"testing"
)

// The parsers read kernel files, so nobody can send them arbitrary input. But users choose the
// names of programs and cgroups, and files of a FUSE file system over /proc (as lxcfs mounts) are
// not the kernel's. No input may make the parsers panic or return a negative quantity.

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

func FuzzParseNumbers(f *testing.F) {
	f.Add([]byte("max 100000\n"))
	f.Add([]byte("150000 100000\n"))
	f.Add([]byte("0-3,8\n"))
	f.Add([]byte("9223372036854771712\n"))
	f.Add([]byte("usage_usec 12\nuser_usec 1\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		for name, parse := range map[string]func([]byte) (int64, error){
			"cpu list": parseCPUList, "usage_usec": parseUsageUsec,
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
