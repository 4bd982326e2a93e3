package process

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// fake is a process of a table made for a test.
type fake struct {
	parent int
	start  uint64
	cgroup string
}

// thread adds the first thread of a process.
func thread(t *testing.T, proc, pid string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Join(proc, pid, "task", pid), 0o700); err != nil {
		t.Fatal(err)
	}
}

// fixture writes a process table and returns its directory.
func fixture(t *testing.T, processes map[int]fake) string {
	t.Helper()
	root := t.TempDir()
	for pid, p := range processes {
		dir := filepath.Join(root, strconv.Itoa(pid))
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		// Fields 4 to 52 of stat: the parent, then zeros but for the start time, field 22.
		fields := strings.Fields(strings.Repeat("0 ", 49))
		fields[0], fields[18] = strconv.Itoa(p.parent), strconv.FormatUint(p.start, 10)
		files := map[string]string{
			"stat":   fmt.Sprintf("%d (engine (1)) S %s\n", pid, strings.Join(fields, " ")),
			"cgroup": "5:cpu:/other\n4:memory:" + p.cgroup + "\n0::/unified\n",
		}
		for name, content := range files {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	return root
}
