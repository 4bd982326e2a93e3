package machine

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// smallFileSystem mounts a file system in memory.
func smallFileSystem(t *testing.T, options string) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Fatal("this test mounts a file system and needs root")
	}
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, options); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	return dir
}

func parsedDir(t *testing.T, d WorkDir) WorkDirSettings {
	t.Helper()
	parsed, wrong := d.Parse()
	if wrong != nil {
		t.Fatal(wrong)
	}
	return parsed
}

// looker looks at one directory.
func looker(t *testing.T, d WorkDir) func() (*bursarv1.DiskSample, string) {
	t.Helper()
	w, parsed := NewWorkDirs(slog.New(slog.DiscardHandler)), []WorkDirSettings{parsedDir(t, d)}
	return func() (*bursarv1.DiskSample, string) {
		t.Helper()
		disks, refusal, _ := w.Measure(t.Context(), parsed)
		if len(disks) != 1 || disks[0].GetPath() != parsed[0].Path || disks[0].GetShort() != (refusal != "") {
			t.Fatalf("%v, %q", disks, refusal)
		}
		return disks[0], refusal
	}
}

func fill(t *testing.T, file string, bytes int64) {
	t.Helper()
	if err := os.WriteFile(file, make([]byte, bytes), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestSpaceThatRunsOutAndComesBack(t *testing.T) {
	dir := smallFileSystem(t, "size=10m")
	look := looker(t, WorkDir{Path: dir, MinFree: "4MiB"})
	disk, refusal := look()
	if refusal != "" || disk.GetTotalBytes() != 10<<20 || disk.GetFreeBytes() != 10<<20 {
		t.Errorf("empty: %v, %q", disk, refusal)
	}
	file := filepath.Join(dir, "file")
	for _, step := range []struct {
		used, free int64 // MiB
		want       string
	}{
		{6 << 20, 4 << 20, ""},
		{6<<20 + 4096, 4<<20 - 4096, dir + ": 4MiB of 10MiB free, want 4MiB"},
		{9 << 20, 1 << 20, dir + ": 1MiB of 10MiB free, want 4MiB"},
		{6 << 20, 4 << 20, dir + ": 4MiB of 10MiB free, want 4MiB"}, // not a tenth more
		{5 << 20, 5 << 20, ""},
		{6 << 20, 4 << 20, ""},
	} {
		fill(t, file, step.used)
		disk, refusal := look()
		if disk.GetFreeBytes() != step.free || refusal != step.want {
			t.Errorf("%d bytes used: %d free, %q, want %q", step.used, disk.GetFreeBytes(), refusal, step.want)
		}
	}
}

func TestInodesThatRunOutAndComeBack(t *testing.T) {
	dir := smallFileSystem(t, "size=10m,nr_inodes=101")
	look := looker(t, WorkDir{Path: dir, MinFreeInodes: "10%"})
	disk, refusal := look()
	if refusal != "" || disk.GetTotalInodes() != 101 || disk.GetFreeInodes() != 100 {
		t.Fatalf("empty: %v, %q", disk, refusal)
	}
	name := func(i int) string { return filepath.Join(dir, fmt.Sprint(i)) }
	for i := range 90 {
		fill(t, name(i), 0)
	}
	if disk, refusal := look(); disk.GetFreeInodes() != 10 || refusal != dir+": 10 of 101 inodes free, want 10%" {
		t.Errorf("%v, %q", disk, refusal)
	}
	for i := range 3 {
		if _, refusal := look(); (refusal == "") != (i >= 2) { // 10.1 % are 11, and a tenth more 12
			t.Errorf("%d removed: %q", i, refusal)
		}
		if err := os.Remove(name(i)); err != nil {
			t.Fatal(err)
		}
	}
}

func TestReadOnlyFileSystemIsShort(t *testing.T) {
	dir := smallFileSystem(t, "size=1m")
	look := looker(t, WorkDir{Path: dir})
	if _, refusal := look(); refusal != "" {
		t.Error(refusal)
	}
	if err := unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	if _, refusal := look(); refusal != dir+": the file system is read-only" {
		t.Error(refusal)
	}
}

func TestDirectoriesThatAreNotThere(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	fill(t, at("file"), 0)
	for from, to := range map[string]string{"link": "real", "dangling": "nowhere", "circle": "circle"} {
		if err := os.Symlink(to, at(from)); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]string{
		"real": "no such file or directory", "link": "no such file or directory", "dangling": "no such file or directory",
		"file": "not a directory", "circle": "too many levels of symbolic links",
	} {
		look := looker(t, WorkDir{Path: at(name), MinFree: "1B", MinFreeInodes: "1"})
		if disk, refusal := look(); refusal != at(name)+": "+want || disk.GetTotalBytes() != 0 {
			t.Errorf("%s: %q, %v", name, refusal, disk)
		}
		if want != "no such file or directory" || name == "dangling" {
			continue
		}
		if err := os.MkdirAll(at("real"), 0o700); err != nil {
			t.Fatal(err)
		}
		if disk, refusal := look(); refusal != "" || disk.GetTotalBytes() == 0 {
			t.Errorf("%s is there now: %q, %v", name, refusal, disk)
		}
		if err := os.Remove(at("real")); err != nil {
			t.Fatal(err)
		}
	}
}

// A file system that hangs is waited for once, and delays nothing.
func TestFileSystemThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := NewWorkDirs(slog.New(slog.DiscardHandler))
		var asked atomic.Int32
		hang := make(chan struct{})
		good := fileSystem{totalBytes: 100, freeBytes: 50}
		w.statfs = func(path string) (fileSystem, error) {
			if path == "/hangs" {
				asked.Add(1)
				<-hang
			}
			return good, nil
		}
		dirs := []WorkDirSettings{parsedDir(t, WorkDir{Path: "/hangs"}), parsedDir(t, WorkDir{Path: "/works"})}
		look := func(takes time.Duration, want string) {
			t.Helper()
			began := time.Now()
			disks, refusal, _ := w.Measure(t.Context(), dirs)
			if took := time.Since(began); took != takes || refusal != want {
				t.Errorf("after %s: %q, want %q after %s", took, refusal, want, takes)
			}
			if len(disks) != 2 || disks[1].GetShort() || disks[1].GetFreeBytes() != 50 || disks[0].GetShort() != (want != "") {
				t.Errorf("%v", disks)
			}
		}
		const why = "/hangs: the file system does not answer"
		look(statfsPatience, why)
		for range 100 {
			look(0, why)
		}
		if asked.Load() != 1 {
			t.Errorf("asked %d times", asked.Load())
		}
		close(hang)
		synctest.Wait()
		look(0, "")
		if asked.Load() != 2 {
			t.Errorf("asked %d times", asked.Load())
		}
	})
}

// A directory that is configured no more is forgotten, with what it was short of.
func TestWorkDirsThatAreReplaced(t *testing.T) {
	w := NewWorkDirs(slog.New(slog.DiscardHandler))
	one, other := parsedDir(t, WorkDir{Path: "/no/such"}), parsedDir(t, WorkDir{Path: t.TempDir(), MinFree: "1B", MinFreeInodes: "0"})
	for _, step := range []struct {
		dirs  []WorkDirSettings
		short bool
	}{{[]WorkDirSettings{one, other}, true}, {[]WorkDirSettings{other}, false}, {nil, false}, {[]WorkDirSettings{one}, true}} {
		disks, refusal, _ := w.Measure(t.Context(), step.dirs)
		if len(disks) != len(step.dirs) || (refusal != "") != step.short || len(w.dirs) != len(step.dirs) {
			t.Errorf("%v: %v, %q", step.dirs, disks, refusal)
		}
	}
}

func TestRefusalFitsTheContract(t *testing.T) {
	w := NewWorkDirs(slog.New(slog.DiscardHandler))
	w.statfs = func(string) (fileSystem, error) { return fileSystem{}, errors.New(strings.Repeat("ä", 99)) }
	var dirs []WorkDirSettings
	for i := range 64 {
		dirs = append(dirs, parsedDir(t, WorkDir{Path: fmt.Sprintf("/%s/%d", strings.Repeat("ö", 33), i)}))
	}
	_, refusal, _ := w.Measure(t.Context(), dirs)
	if len(refusal) > maxRefusal || len(refusal) < maxRefusal-8 || !utf8.ValidString(refusal) || !strings.HasSuffix(refusal, " …") {
		t.Errorf("%d bytes: %q", len(refusal), refusal)
	}
}

// Whatever a directory goes through: it is short below the threshold, it is not from a tenth above
// it on, and in between it is what it was.
func TestShortHasHysteresis(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		total := rapid.Int64Range(0, math.MaxInt64).Draw(t, "total")
		limit := threshold{amount: rapid.Int64Range(0, 1<<53).Draw(t, "amount"), parts: rapid.Int64Range(0, 10_000).Draw(t, "parts")}
		least := limit.of(total)
		if least < 0 || limit.amount == 0 && least > total && total < 1<<52 {
			t.Fatalf("threshold %d of %d", least, total)
		}
		was := false
		for range 20 {
			free := rapid.OneOf(rapid.Int64Range(0, total), rapid.Int64Range(max(0, least-2), max(least, least/10+least+2))).Draw(t, "free")
			free = min(free, total)
			is := short(was, free, total, limit)
			switch {
			case free < least && !is:
				t.Fatalf("%d of %d free, want %d: not short", free, total, least)
			case free >= least && (free-least >= least/10 || free == total) && is:
				t.Fatalf("%d of %d free, want %d: short", free, total, least)
			case free >= least && free-least < least/10 && free < total && is != was:
				t.Fatalf("%d of %d free, want %d: short %v, was %v", free, total, least, is, was)
			}
			was = is
		}
	})
}

func TestFileSystemsThatCountOddly(t *testing.T) {
	for _, test := range []struct {
		count, unit uint64
		want        int64
	}{{3, 4096, 12288}, {math.MaxUint64, 1, math.MaxInt64}, {1 << 62, 4096, math.MaxInt64}, {7, 0, 0}, {0, 512, 0}} {
		if got := times(test.count, test.unit); got != test.want {
			t.Errorf("%d × %d: %d", test.count, test.unit, got)
		}
	}
	if got := available(math.MaxUint64 - 3); got != 0 {
		t.Errorf("less than nothing: %d", got)
	}
}
