package host

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/bursar/bursar/internal/cgroupfs"
)

// processError converts the error of reading a file of a process. A missing file does not prove
// that the process has ended: the kernel may hide it (hidepid), or the process table is not
// mounted. So it asks the kernel for the pid, which hidepid does not hide.
func (m *Meter) processError(pid int32, err error) error {
	if !cgroupfs.Absent(err) {
		return fmt.Errorf("process %d: %w", pid, err)
	}
	if m.exists != nil && m.exists(int(pid)) {
		// If the pid is visible now, another process has just reused it.
		if _, err := os.Lstat(m.file(pid, "")); err != nil {
			return fmt.Errorf("%w: pid %d", ErrHidden, pid)
		}
	}
	return fmt.Errorf("%w: pid %d", ErrNoProcess, pid)
}

// Blind returns the reason why this process cannot see all processes of the machine, as text for an
// operator; empty if it can, as far as it can tell. The end of a hidden engine is detected all the
// same, but its use is unknown.
func (m *Meter) Blind() string {
	self, err := os.Readlink(filepath.Join(m.proc, "self"))
	switch {
	case err != nil:
		return "no process table is mounted at " + m.proc
	case self != strconv.Itoa(os.Getpid()):
		return "the process table at " + m.proc + " is that of another pid namespace"
	}
	var s scratch
	switch _, err := s.read(m.file(1, "stat")); {
	case cgroupfs.Absent(err) && m.exists != nil && m.exists(1):
		return m.proc + " hides the processes of other users (hidepid)"
	case errors.Is(err, os.ErrPermission):
		return m.proc + " does not let this user read the processes of other users (hidepid, or a security module)"
	case err != nil && !cgroupfs.Absent(err):
		return "a process cannot be read: " + err.Error()
	}
	if option := hidepid(&s, m.proc, m.proc); option != "" {
		return m.proc + " is mounted with hidepid=" + option + ", and hides the processes of other users"
	}
	return ""
}

// hidepid returns the mode of the process table's mount if it hides processes from this process;
// empty otherwise. A process that may trace others sees all of them. So does a process in the
// mount's group, except in the mode that depends on tracing alone. point is the mount point, and
// proc the directory to read.
func hidepid(s *scratch, point, proc string) string {
	data, err := s.read(filepath.Join(proc, "self", "mountinfo"))
	if err != nil {
		return ""
	}
	mode, group := "", 0
	for mount, err := range cgroupfs.MountInfos(data) {
		if err != nil || mount.Type != "proc" || mount.Point != point {
			continue
		}
		mode, group = "", 0 // the last mount covers the earlier ones
		for option := range strings.SplitSeq(mount.SuperOptions, ",") {
			if value, is := strings.CutPrefix(option, "hidepid="); is {
				mode = value
			}
			if value, is := strings.CutPrefix(option, "gid="); is {
				group, _ = strconv.Atoi(value) // the kernel writes numbers
			}
		}
	}
	switch mode {
	case "", "0", "off":
		return ""
	case "4", "ptraceable":
	default:
		if inGroup(group) {
			return ""
		}
	}
	if mayTrace(s, proc) {
		return ""
	}
	return mode
}

func inGroup(group int) bool {
	if os.Getegid() == group {
		return true
	}
	groups, err := os.Getgroups()
	if err != nil {
		return false
	}
	return slices.Contains(groups, group)
}

// mayTrace reports whether this process has CAP_SYS_PTRACE.
func mayTrace(s *scratch, proc string) bool {
	data, err := s.read(filepath.Join(proc, "self", "status"))
	if err != nil {
		return false
	}
	for line := range bytes.Lines(data) {
		if value, is := bytes.CutPrefix(line, []byte("CapEff:")); is {
			set, err := strconv.ParseUint(string(bytes.TrimSpace(value)), 16, 64)
			return err == nil && set&(1<<unix.CAP_SYS_PTRACE) != 0
		}
	}
	return false
}
