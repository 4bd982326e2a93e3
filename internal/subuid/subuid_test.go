package subuid_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/bursar/bursar/internal/subuid"
)

func TestSubordinateIdsCountOnTheirOwner(t *testing.T) {
	path := filepath.Join(t.TempDir(), "subuid")
	ranges := subuid.New(path, time.Now)
	if got := ranges.Account(100000, "100000"); got != "100000" {
		t.Errorf("without a file: %q", got)
	}
	write := func(content string, written time.Time) {
		t.Helper()
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, written, written); err != nil {
			t.Fatal(err)
		}
	}
	write("# a comment\nalice:100000:65536\n1000:165536:10\nroot:200000:65536\ncontainers:2147483648:65536\n:300000:1\nbob:x:1\nbob:300000:-1\nbob:300000:99999999999\ncarol:0:70000\nlast:4294967290:65536", time.Unix(1, 0))
	for _, test := range []struct {
		uid        uint32
		name, want string
	}{
		{100000, "100000", "subuid:alice"},
		{165535, "165535", "subuid:alice"},
		{99999, "99999", "99999"},
		{165536, "165536", "subuid:1000"},
		{165546, "165546", "165546"},
		{100001, "daemon", "daemon"}, // who has a name is somebody
		{200000, "200000", "200000"}, // root's are given to others
		{300000, "300000", "300000"}, // no line says so well
		{2147483649, "2147483649", "2147483649"},
		{1001, "1001", "1001"}, // a range that begins with root does not count
		{4294967295, "4294967295", "subuid:last"},
	} {
		if got := ranges.Account(test.uid, test.name); got != test.want {
			t.Errorf("Account(%d, %q) = %q, want %q", test.uid, test.name, got, test.want)
		}
	}
	write("bob:100000:65536\n", time.Unix(2, 0))
	if got := ranges.Account(100000, "100000"); got != "subuid:bob" {
		t.Errorf("after a change: %q", got)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if got := ranges.Account(100000, "100000"); got != "100000" {
		t.Errorf("after it was removed: %q", got)
	}
}
