package cgroup

import (
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"strconv"
	"strings"
)

// An engine with the rights to it can make cgroups below its own without end. So many are looked at, and so far down.
const (
	mostBelow = 4096
	deepest   = 32
)

var errTooMany = fmt.Errorf("more than %d cgroups are below it, or more than %d deep", mostBelow, deepest)

// members lists the processes in a cgroup and below it.
func (t *Tree) members(h *hierarchy, name string) (pids []int32, err error) {
	level, found := strings.Count(name, "/"), 1
	for names := []string{name}; len(names) > 0; names = names[1:] {
		folder, visible := h.folder(names[0])
		if !visible {
			return nil, fmt.Errorf("cgroup %s: %w", name, ErrNone)
		}
		here, err := t.processes(folder)
		if err != nil {
			if gone(err) {
				if names[0] != name {
					continue
				}
				err = errors.Join(ErrNone, err)
			}
			return nil, fmt.Errorf("cgroup %s: %w", names[0], err)
		}
		pids = append(pids, here...)
		children, err := t.files.Folders(folder)
		if err != nil && !gone(err) {
			return nil, fmt.Errorf("cgroup %s: %w", names[0], err)
		}
		if found += len(children); found > mostBelow || len(children) > 0 && strings.Count(names[0], "/")-level >= deepest {
			return nil, fmt.Errorf("cgroup %s: %w", name, errTooMany)
		}
		for _, child := range children {
			names = append(names, path.Join(names[0], child))
		}
	}
	return pids, nil
}

// processes lists those in a cgroup itself.
func (t *Tree) processes(folder string) (pids []int32, err error) {
	content, err := t.files.Read(filepath.Join(folder, "cgroup.procs"))
	if err != nil {
		return nil, err //nolint:wrapcheck // it names the file
	}
	for word := range strings.FieldsSeq(string(content)) {
		pid, err := strconv.ParseInt(word, 10, 32)
		if err != nil {
			return nil, fmt.Errorf("cgroup.procs: %w", err)
		}
		pids = append(pids, int32(pid))
	}
	return pids, nil
}
