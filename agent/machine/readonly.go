package machine

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bursar/bursar/internal/cgroupfs"
)

// mountsOfTheMachine has the mounts as engines see them. The agent's own are others if systemd
// runs it: ProtectSystem= makes directories read-only there that engines may write to.
const mountsOfTheMachine = "/proc/1/mountinfo"

// readOnlyForEngines reports whether a directory that is read-only for the agent is so for
// engines. If that cannot be known, it reports true.
func readOnlyForEngines(path string) bool {
	path, err := filepath.EvalSymlinks(path)
	if err != nil {
		return true
	}
	mounts, err := os.ReadFile(mountsOfTheMachine)
	return err != nil || readOnlyIn(mounts, path)
}

// readOnlyIn looks for the mount that a clean path without symbolic links is on: of those with the
// longest mount point the last, which covers the others. It is read-only if the mount is, or its
// file system.
func readOnlyIn(mounts []byte, path string) bool {
	longest, readOnly := -1, true
	for mount, err := range cgroupfs.MountInfos(mounts) {
		if err != nil {
			continue
		}
		point := mount.Point
		if !isAtOrBelow(point, path) || len(point) < longest {
			continue
		}
		longest = len(point)
		readOnly = hasOption(mount.Options, "ro") || hasOption(mount.SuperOptions, "ro")
	}
	return readOnly
}

func isAtOrBelow(point, path string) bool {
	below, ok := strings.CutPrefix(path, strings.TrimSuffix(point, "/"))
	return ok && (below == "" || below[0] == '/')
}

func hasOption(options, name string) bool { return slices.Contains(strings.Split(options, ","), name) }
