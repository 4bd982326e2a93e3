package agent

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// mountsOfTheMachine has the mounts as engines see them. The agent's own are others where systemd runs it: ProtectSystem= has made read-only
// there what everybody else may write to.
const mountsOfTheMachine = "/proc/1/mountinfo"

// readOnlyForEngines reports whether a directory that is read-only for the agent is so for engines. Where that cannot be known, it is.
func readOnlyForEngines(path string) bool {
	path, err := filepath.EvalSymlinks(path)
	if err != nil {
		return true
	}
	mounts, err := os.ReadFile(mountsOfTheMachine)
	return err != nil || readOnlyIn(mounts, path)
}

// readOnlyIn looks for the mount that a clean path without symbolic links is on: of those with the longest mount point the last, which
// covers the others. It is read-only if the mount is, or its file system.
func readOnlyIn(mounts []byte, path string) bool {
	longest, readOnly := -1, true
	for line := range bytes.Lines(mounts) {
		// proc_pid_mountinfo(5): ID PARENT DEVICE ROOT POINT OPTIONS [FIELD…] - TYPE SOURCE OPTIONS
		fields := strings.Fields(string(line))
		end := slices.Index(fields, "-")
		if end < 6 || len(fields) < end+4 {
			continue
		}
		point := unescaped(fields[4])
		if !isAtOrBelow(point, path) || len(point) < longest {
			continue
		}
		longest = len(point)
		readOnly = hasOption(fields[5], "ro") || hasOption(fields[end+3], "ro")
	}
	return readOnly
}

func isAtOrBelow(point, path string) bool {
	below, ok := strings.CutPrefix(path, strings.TrimSuffix(point, "/"))
	return ok && (below == "" || below[0] == '/')
}

func hasOption(options, name string) bool { return slices.Contains(strings.Split(options, ","), name) }

// unescaped undoes what the kernel does to blanks and backslashes: three octal digits after a backslash.
func unescaped(text string) string {
	var out strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] == '\\' && i+4 <= len(text) {
			if code, err := strconv.ParseUint(text[i+1:i+4], 8, 8); err == nil {
				out.WriteByte(byte(code))
				i += 3
				continue
			}
		}
		out.WriteByte(text[i])
	}
	return out.String()
}
