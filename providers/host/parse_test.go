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
	// no start time
	f("1 (x) S 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 1 0")
	// not a number
	f("1 (x) S y 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 1 0 5")
	f("1 (x) S 4294967296 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 1 0 5") // no pid
	// an implausible time
	f("1 (x) S 0 0 0 0 0 0 0 0 0 0 18446744073709551615 0 0 0 0 0 1 0 5")
	// out of range
	f("1 (x) S 0 0 0 0 0 0 0 0 0 0 99999999999999999999999999999999 0 0 0 0 0 1 0 5")
}

func TestParseCPUList(t *testing.T) {
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
