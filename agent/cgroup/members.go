package cgroup

import (
	"errors"
	"fmt"

	"github.com/bursar/bursar/internal/cgroupfs"
)

// An engine may be allowed to make any number of cgroups below its own. These constants bound how
// many are read, and how deep.
const (
	mostBelow = 4096
	deepest   = 32
)

var errTooMany = fmt.Errorf("more than %d cgroups are below it, or more than %d deep", mostBelow, deepest)

// members lists the processes in and below a cgroup.
func (t *Tree) members(h *hierarchy, name string) (pids []int32, err error) {
	folder, visible := h.folder(name)
	if !visible {
		return nil, fmt.Errorf("cgroup %s: %w", name, ErrNone)
	}
	walk := cgroupfs.Walk{Read: t.files.Read, Children: t.files.Folders, Left: mostBelow, Deepest: deepest}
	pids, all, err := walk.Members(folder, nil)
	switch {
	case cgroupfs.Absent(err):
		err = errors.Join(ErrNone, err)
	case err == nil && !all:
		err = errTooMany
	}
	if err != nil {
		return nil, fmt.Errorf("cgroup %s: %w", name, err)
	}
	return pids, nil
}
