package process

import (
	"fmt"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/prometheus/procfs"
)

// Engine is a process tree to look for.
type Engine struct {
	Root Ref
	// Cgroup is its own, "" if it has none.
	Cgroup string
}

// Members returns the processes of an engine that are there now, its root among them if it is: the root, its descendants,
// and whatever is in its own cgroup. Where the root has ended, those that are in the session or process group that it led
// take the place of its descendants, whom the kernel has given to another parent. It reads the whole process table: it is for
// the rare moment in which an engine is stopped. This process is never a member.
func Members(proc string, e Engine) ([]Ref, error) {
	fs, err := procfs.NewFS(proc)
	if err != nil {
		return nil, fmt.Errorf("process table: %w", err)
	}
	all, err := fs.AllProcs()
	if err != nil {
		return nil, fmt.Errorf("process table: %w", err)
	}
	table := make(map[int]procfs.ProcStat, len(all))
	inCgroup := make(map[int]bool)
	for _, p := range all {
		stat, err := p.Stat()
		if err != nil {
			continue // it has ended
		}
		table[p.PID] = stat
		if e.Cgroup != "" && e.Cgroup != "/" {
			cgroups, err := p.Cgroups()
			inCgroup[p.PID] = err == nil && within(cgroups, e.Cgroup)
		}
	}
	var members []Ref
	for pid, stat := range table {
		if pid > 1 && pid != os.Getpid() && (e.owns(table, stat) || inCgroup[pid]) {
			members = append(members, Ref{PID: int32(pid), StartTime: stat.Starttime}) //nolint:gosec // a pid is below 2^22
		}
	}
	slices.SortFunc(members, func(a, b Ref) int { return int(a.PID - b.PID) })
	return members, nil
}

// owns reports whether a process is the root or a descendant of it, or was led by it.
func (e Engine) owns(table map[int]procfs.ProcStat, stat procfs.ProcStat) bool {
	root := int(e.Root.PID)
	switch now, there := table[root]; {
	case there && now.Starttime != e.Root.StartTime:
		return false // The kernel gives a pid away only when no session and no group has it for its number.
	case !there, now.State == "Z", now.State == "X":
		return (stat.Session == root || stat.PGRP == root) && stat.Starttime >= e.Root.StartTime
	}
	for range table { // the way up is never longer, even if what was read does not fit together
		if stat.PID == root {
			return true
		}
		parent, there := table[stat.PPID]
		if !there || stat.PPID <= 1 {
			return false
		}
		stat = parent
	}
	return false
}

// within reports whether a process is in a cgroup or below it, in the hierarchy that accounts for memory.
func within(cgroups []procfs.Cgroup, name string) bool {
	var memory, unified string
	for _, c := range cgroups {
		if slices.Contains(c.Controllers, "memory") {
			memory = c.Path
		}
		if c.HierarchyID == 0 {
			unified = c.Path
		}
	}
	if memory == "" {
		memory = unified
	}
	return memory == name || strings.HasPrefix(memory, path.Clean(name)+"/")
}
