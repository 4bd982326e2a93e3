package subuid_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/bursar/bursar/internal/subuid"
)

// A process without descriptors, or something else in place of the file, says nothing about the
// owners of ids: what was known stays, and the file is read as soon as it can be.
func TestRangesThatCannotBeReadAreReadLater(t *testing.T) {
	path := filepath.Join(t.TempDir(), "subuid")
	write := func(content string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, time.Unix(int64(len(content)), 0), time.Unix(int64(len(content)), 0)); err != nil {
			t.Fatal(err)
		}
	}
	now := time.Unix(1000, 0)
	ranges := subuid.New(path, func() time.Time { return now })
	want := func(when, want string) {
		t.Helper()
		if got := (accounts{}).charged(ranges, 100001); got != want {
			t.Errorf("%s: %s, want %s", when, got, want)
		}
	}
	write("alice:100000:65536\n")
	withoutDescriptors(t, func() { want("without descriptors", "100001") })
	now = now.Add(time.Second)
	want("later", "alice")
	write("bobby-tables:100000:65536\n")
	withoutDescriptors(t, func() { want("changed, without descriptors", "alice") })
	now = now.Add(time.Second)
	want("changed", "bobby-tables")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
	want("a directory", "bobby-tables")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	now = now.Add(time.Second)
	want("not there", "100001")
}

// withoutDescriptors runs f while no file can be opened.
func withoutDescriptors(t *testing.T, f func()) {
	t.Helper()
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: 0, Max: limit.Max}); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
			t.Error(err)
		}
	}()
	f()
}
