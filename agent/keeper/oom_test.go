package keeper

import (
	"os"
	"path/filepath"
	"testing"
)

func TestKillsAreReadFromTheCgroupOfItsOwn(t *testing.T) {
	for name, test := range map[string]struct {
		cgroup, file, content string
		want                  int64
		known                 bool
	}{
		"unified":               {"0::/e/a1\n", "e/a1/memory.events", "low 0\noom 4\noom_kill 3\noom_group_kill 0\n", 3, true},
		"version 1":             {"5:memory:/e/a1\n1:name=systemd:/x\n0::/\n", "memory/e/a1/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n", 2, true},
		"version 1, with other": {"7:cpu,memory:/e/a1\n", "cpu,memory/e/a1/memory.oom_control", "oom_kill 1\n", 1, true},
		"hybrid":                {"5:memory:/e/a1\n0::/e/a1\n", "memory/e/a1/memory.oom_control", "oom_kill 6\n", 6, true},
		"next to version 1":     {"5:cpu:/e/a1\n0::/e/a1\n", "unified/e/a1/memory.events", "oom_kill 8\n", 8, true},
		"of another":            {"0::/e/a1\n", "e/a2/memory.events", "oom_kill 3\n", 0, false},
		"no controller":         {"0::/e/a1\n", "e/a1/cgroup.events", "populated 1\n", 0, false},
		"an older kernel":       {"5:memory:/e/a1\n", "memory/e/a1/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\n", 0, false},
		"garbage":               {"0::/e/a1\nx\n", "e/a1/memory.events", "oom_kill x\n", 0, false},
		"nothing":               {"", "x", "", 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			for path, content := range map[string]string{"proc/self/cgroup": test.cgroup, "sys/fs/cgroup/" + test.file: test.content} {
				path = filepath.Join(root, path)
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if got, known := oomKills(root); got != test.want || known != test.known {
				t.Errorf("%d, %v: want %d, %v", got, known, test.want, test.known)
			}
		})
	}
}
