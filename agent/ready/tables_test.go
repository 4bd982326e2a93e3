package ready

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const columns = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"

func socket(address, state string, inode int) string {
	return fmt.Sprintf("   0: %s 00000000:0000 %s 00000000:00000000 00:00000000 00000000     0        0 %d 1 0000000000000000 100 0 0 10 0\n", address, state, inode)
}

// fixture is a process table with one process, 7.
func fixture(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestTablesOfSockets(t *testing.T) {
	const six = "00000000000000000000000000000000:"
	w := New(Deps{Proc: fixture(t, map[string]string{
		"7/net/tcp": columns + socket("0100007F:1F90", "0A", 10) + socket("00000000:1F90", "03", 11) + "nonsense\n" + socket("00000000:0050", "0A", 12) +
			socket("0100007F:1F91", "01", 13) + socket("0100007F:1F91", "0A", 14), // never behind a connection
		"7/net/tcp6": columns + socket(six+"1F90", "0A", 15) + socket("0000000000000000FFFF00000100007F:0051", "0A", 16),
		"8/net/tcp":  columns + socket("0100007F:1F90", "0A", 20), // no IPv6
	})})
	for port, want := range map[uint16][]uint64{8080: {10, 15}, 80: {12}, 81: {16}, 8081: nil} {
		got, err := w.tables.listeners("a", "7", port)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("port %d: %v %s", port, err, diff)
		}
	}
	if got, err := w.tables.listeners("b", "8", 8080); err != nil || len(got) != 1 || got[0] != 20 {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := w.tables.listeners("c", "9", 8080); err == nil {
		t.Error("a process that is not there has a table")
	}
	if got := w.counts.tables.Load(); got != 3 {
		t.Errorf("%d tables were read", got)
	}
}

// Ten thousand connections cost nothing: the kernel lists the listeners first.
func TestConnectionsAreNotRead(t *testing.T) {
	content := columns + socket("0100007F:1F90", "0A", 10) + strings.Repeat(socket("0100007F:1F91", "01", 13), 10_000)
	w := New(Deps{Proc: fixture(t, map[string]string{"7/net/tcp": content})})
	if got := testing.AllocsPerRun(1, func() {
		w.tables.known = make(map[string]*table)
		if found, err := w.tables.listeners("a", "7", 8080); err != nil || len(found) != 1 {
			t.Errorf("%v, %v", found, err)
		}
	}); got > 100 {
		t.Errorf("%.0f allocations: the whole table is read", got)
	}
}

func TestOpenFilesHaveABound(t *testing.T) {
	dir := fixture(t, map[string]string{"7/fd/.keep": "", "7/task/7/.keep": ""})
	for i := range 1000 {
		if err := os.Symlink(fmt.Sprintf("socket:[%d]", i), filepath.Join(dir, "7/fd", strconv.Itoa(i))); err != nil {
			t.Fatal(err)
		}
	}
	for left, want := range map[int]bool{100: false, 2000: true} {
		s := search{proc: dir, inodes: map[uint64]bool{5000: true}, left: left}
		if s.has(7) || want != (s.left > 0) {
			t.Errorf("%d files are left of %d", s.left, left)
		}
	}
	s := search{proc: dir, inodes: map[uint64]bool{500: true}, left: 2000}
	if !s.has(7) {
		t.Error("the socket was not found")
	}
}

func TestNamesOfOpenFiles(t *testing.T) {
	for name, want := range map[string]uint64{
		"socket:[12]": 12, "socket:[]": 0, "socket:[x]": 0, "socket:[12": 0, "pipe:[12]": 0, "/tmp/socket:[12]": 0, "": 0, "socket:[18446744073709551615]": 1<<64 - 1,
	} {
		if got, is := socketInode([]byte(name)); got != want || is != (want != 0) {
			t.Errorf("%q: %d, %t", name, got, is)
		}
	}
}
