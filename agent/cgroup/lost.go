package cgroup

import (
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bursar/bursar/internal/cgroupfs"
)

// Lost names a limit or weight (see limitFiles) or the container that a process would lose by a
// move below the cgroup to; "" if there is none. A limit that also holds for to is not lost. Limits
// in the files kept do not count, because the caller sets them again. ErrNone: there is no such
// process.
//
// With version 1 a process keeps its limits in other hierarchies, such as the number of processes:
// it is not moved there.
func (t *Tree) Lost(pid int32, to string, kept ...string) (string, error) {
	container, err := t.elsewhere(pid)
	if err != nil {
		return "", err
	}
	if container != "" {
		return container, nil
	}
	found := ""
	err = t.limits(pid, to, func(name, file string, _ int64) bool {
		if slices.Contains(kept, file) {
			return true
		}
		found = file + " of cgroup " + name
		return false
	})
	return found, err
}

// Tasks returns the limit on the number of processes that a process would lose by a move below the
// cgroup to; 0 means none.
func (t *Tree) Tasks(pid int32, to string) (int64, error) {
	least := int64(0)
	err := t.limits(pid, to, func(_, file string, limit int64) bool {
		if file == tasksFile && (least == 0 || limit < least) {
			least = limit
		}
		return true
	})
	return least, err
}

// tasksFile has the limit on the number of processes, which version 2 has in the same hierarchy as
// the others.
const tasksFile = "pids.max"

// limits goes up from the cgroup of a process to the first cgroup that also contains the cgroup to.
// It passes each limit to tell until tell returns false.
func (t *Tree) limits(pid int32, to string, tell func(name, file string, limit int64) bool) error {
	cgroups, err := t.cgroupsOf(pid)
	if err != nil {
		return err
	}
	for _, h := range t.all {
		for name := cgroups.Of(h.controller()); name != "/" && !below(to, name); name = path.Dir(name) {
			if goOn, err := t.limitsOf(h, name, tell); !goOn || err != nil {
				return err
			}
		}
	}
	return nil
}

// below reports whether the cgroup name is other, or is below it.
func below(name, other string) bool {
	_, is := cgroupfs.Within(other, name)
	return is
}

// elsewhere names the namespace that shows that a process is in a container, whose runtime expects
// it in its cgroup. A process in a user namespace of its own does not count: every user can make
// one, and other namespaces in it, to escape a move.
func (t *Tree) elsewhere(pid int32) (string, error) {
	thread := t.liveThread(pid)
	differs := func(kind string) (bool, error) {
		other, err := cgroupfs.OtherNamespace(filepath.Join(t.proc, "self"), t.process(thread), kind)
		if err != nil {
			return false, processGone(pid, err)
		}
		return other, nil
	}
	if ownUsers, err := differs("user"); ownUsers || err != nil {
		return "", err
	}
	for _, kind := range []string{"pid", "cgroup"} {
		if other, err := differs(kind); other || err != nil {
			return "its container (" + kind + " namespace)", err
		}
	}
	return "", nil
}

func processGone(pid int32, err error) error {
	if cgroupfs.Absent(err) {
		err = errors.Join(ErrNone, err)
	}
	return fmt.Errorf("process %d: %w", pid, err)
}

// limitsOf passes the limits of one cgroup to tell. A cgroup outside the mount may have any limit.
func (t *Tree) limitsOf(h *hierarchy, name string, tell func(name, file string, limit int64) bool) (goOn bool, err error) {
	folder, visible := h.folder(name)
	if !visible {
		return tell(name, "what is not seen here", 0), nil
	}
	for _, file := range limitFiles() {
		text, err := t.limitText(folder, file.name)
		if cgroupfs.Absent(err) || errors.Is(err, errors.ErrUnsupported) {
			continue // of another controller or version, or the kernel has no such thing
		}
		if err != nil {
			return false, fmt.Errorf("cgroup %s: %w", name, err)
		}
		if file.unset(text) {
			continue
		}
		if h.V1 && strings.HasPrefix(file.name, "cpuset.") {
			// with version 1 a new child starts with its parent's value
			if above, err := t.limitText(filepath.Dir(folder), file.name); err == nil && above == text {
				continue
			}
		}
		limit := int64(0)
		if file.name == tasksFile {
			if limit, err = number(text); err != nil {
				return false, fmt.Errorf("cgroup %s: %s: %w", name, file.name, err)
			}
		}
		if !tell(name, file.name, limit) {
			return false, nil
		}
	}
	return true, nil
}

func (t *Tree) limitText(folder, file string) (string, error) {
	content, err := t.files.Read(filepath.Join(folder, file))
	return strings.TrimSpace(string(content)), err //nolint:wrapcheck // it names the file
}
