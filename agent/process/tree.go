package process

import (
	"fmt"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/prometheus/procfs"
)

// Members returns the running processes that are proven to descend from an engine's root, and the
// root itself if it runs. Their users and cgroups do not matter. Members reads the whole process
// table, so it is only for the rare moves and stops of an engine. It never returns this process or
// its ancestors.
func Members(proc string, e Engine) ([]Ref, error) {
	found, err := findProcesses(proc, e, newDescent(e))
	var members []Ref
	for _, f := range found {
		if f.descends {
			members = append(members, f.Ref)
		}
	}
	return members, err
}

// found is a process that is related to an engine.
type found struct {
	Ref

	descends bool // from the root
	inside   bool // in its cgroup
	numbered bool // in the session or group with the root's number, after the root has ended
	measured bool // counted as the engine's
}

// findProcesses finds the current processes of an engine, in the order of their pids: the root's
// descendants, the members of the engine's cgroup, and other processes that were measured as the
// engine's. If the root is gone, it also finds processes in the session or group with its number.
func findProcesses(proc string, e Engine, d *descent) ([]found, error) {
	fs, err := procfs.NewFS(proc)
	if err != nil {
		return nil, fmt.Errorf("process table: %w", err)
	}
	at := now()
	table, inside, err := readTable(fs, e.Cgroup)
	if err != nil {
		return nil, err
	}
	d.update(table, at)
	number := int(e.Root.PID)
	_, taken := table[number]
	measured := make(map[Ref]bool, len(e.Measured))
	for _, ref := range e.Measured {
		measured[ref] = true
	}
	self := make(map[int]bool)
	for _, stat := range lineage(table, os.Getpid()) {
		self[stat.PID] = true
	}
	var list []found
	for pid, stat := range table {
		f := found{Ref: refOf(stat), descends: d.known[refOf(stat)], inside: inside[pid]}
		f.numbered = !taken && (stat.Session == number || stat.PGRP == number)
		f.measured = measured[f.Ref] || f.inside && e.Made
		ended := stat.State == "Z" && stat.NumThreads <= 1 // otherwise only its first thread has ended
		starter := d.above[f.Ref] && !e.Guarded            // the launcher is not part of the engine
		if pid > 1 && !self[pid] && !ended && !starter && (f.descends || f.inside || f.numbered || f.measured) {
			list = append(list, f)
		}
	}
	slices.SortFunc(list, func(a, b found) int { return int(a.PID - b.PID) })
	return list, nil
}

// readTable reads all processes. If cgroup is not empty, it also returns which of them are inside.
func readTable(fs procfs.FS, cgroup string) (table map[int]procfs.ProcStat, inside map[int]bool, err error) {
	all, err := fs.AllProcs()
	if err != nil {
		return nil, nil, fmt.Errorf("process table: %w", err)
	}
	table, inside = make(map[int]procfs.ProcStat, len(all)), make(map[int]bool)
	for _, p := range all {
		stat, err := p.Stat()
		if err != nil {
			continue // it has ended
		}
		table[p.PID] = stat
		if cgroup != "" {
			inside[p.PID] = within(p, cgroup)
		}
	}
	return table, inside, nil
}

// within reports whether a process is in or below a cgroup, in the hierarchy that accounts for
// memory.
func within(p procfs.Proc, name string) bool {
	cgroups, err := p.Cgroups()
	if err != nil || name == "/" {
		return false
	}
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
