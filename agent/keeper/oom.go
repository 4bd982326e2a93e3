package keeper

import (
	"os"
	"path"
	"strconv"
	"strings"
)

// oomKills is how many processes of this one's cgroup the kernel has killed for lack of memory, as
// far as it says so. root is "/".
func oomKills(root string) (kills int64, known bool) {
	text, err := os.ReadFile(path.Join(root, "proc/self/cgroup")) //nolint:gosec // a fixed place
	if err != nil {
		return 0, false
	}
	for line := range strings.Lines(string(text)) {
		// hierarchy:controllers:path; of the unified one, which is number 0, the controllers are
		// empty.
		fields := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(fields) < 3 {
			continue
		}
		var files []string
		switch {
		case fields[0] == "0" && fields[1] == "":
			files = []string{path.Join(fields[2], "memory.events"), path.Join("unified", fields[2], "memory.events")}
		case strings.Contains(","+fields[1]+",", ",memory,"):
			files = []string{path.Join("memory", fields[2], "memory.oom_control"), path.Join(fields[1], fields[2], "memory.oom_control")}
		}
		for _, file := range files {
			if kills, known := oomKillsOf(path.Join(root, "sys/fs/cgroup", file)); known {
				return kills, true
			}
		}
	}
	return 0, false
}

func oomKillsOf(file string) (kills int64, known bool) {
	text, err := os.ReadFile(file) //nolint:gosec // below the cgroups' mount
	if err != nil {
		return 0, false
	}
	for line := range strings.Lines(string(text)) {
		if value, found := strings.CutPrefix(line, "oom_kill "); found {
			kills, err := strconv.ParseInt(strings.TrimSpace(value), 10, 64)
			return kills, err == nil
		}
	}
	return 0, false
}
