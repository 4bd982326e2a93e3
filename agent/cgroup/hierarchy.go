package cgroup

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"

	"github.com/bursar/bursar/internal/cgroupfs"
)

// The controllers that this package uses. With version 1, cpuacct accounts for processor time.
const (
	memory     = cgroupfs.Memory
	cpu        = "cpu"
	accounting = "cpuacct"
)

// hierarchy is one mounted hierarchy of cgroups, as its mount shows it.
type hierarchy struct {
	cgroupfs.Place

	// own is the cgroup of this process.
	own string
	// controllers of version 1; those of version 2 depend on the cgroup.
	controllers []string
}

// folder returns the folder of a cgroup; false if the mount does not show the cgroup.
func (h *hierarchy) folder(name string) (string, bool) {
	below, visible := cgroupfs.Within(h.Root, name)
	return filepath.Join(h.Point, below), visible
}

// controller returns the name that identifies the hierarchy: its first controller, or the unified
// one.
func (h *hierarchy) controller() string {
	if h.V1 {
		return h.controllers[0]
	}
	return cgroupfs.Unified
}

// Tree is the machine's cgroups, as this process sees them. It stores only their locations.
type Tree struct {
	files Files
	proc  string
	// main is the hierarchy that accounts for memory; if none does, the unified one. The path of a
	// cgroup is its path in main.
	main *hierarchy
	// all has main and the other hierarchies in use.
	all []*hierarchy
	// freezer and unified are the hierarchies that can freeze processes; nil if not mounted.
	freezer, unified *hierarchy
}

// TreeOptions are for tests; the zero value is this machine.
type TreeOptions struct {
	// Proc is the process table, /proc. Mount points in it are below Root.
	Proc, Root string
	Files      Files
}

// OpenTree finds the hierarchies. ErrNone: none is mounted.
func OpenTree(o TreeOptions) (*Tree, error) {
	if o.Proc == "" {
		o.Proc = procfs.DefaultMountPoint
	}
	if o.Files == nil {
		o.Files = kernel{}
	}
	known, own, err := mounted(o)
	if err != nil {
		return nil, err
	}
	t := &Tree{files: o.Files, proc: o.Proc}
	byController := make(map[string]*hierarchy)
	for _, controller := range []string{memory, cpu, accounting} {
		at, found := known.Widest(controller)
		if !found {
			continue
		}
		h := &hierarchy{Place: at, own: own.Of(controller)}
		for _, other := range byController {
			if other.Point == at.Point {
				h = other
			}
		}
		h.controllers = append(h.controllers, controller)
		byController[controller] = h
	}
	var unified *hierarchy
	if at, found := known.Widest(cgroupfs.Unified); found {
		unified = &hierarchy{Place: at, own: own.Of(cgroupfs.Unified)}
	}
	t.unified, t.freezer = unified, nil
	if at, found := known.Widest(freezer); found {
		t.freezer = &hierarchy{Place: at, own: own.Of(freezer), controllers: []string{freezer}}
	}
	t.main = byController[memory]
	if t.main == nil {
		t.main = unified
	}
	for _, h := range []*hierarchy{t.main, byController[cpu], byController[accounting]} {
		if h != nil && !slices.Contains(t.all, h) {
			t.all = append(t.all, h)
		}
	}
	// If only some controllers use version 1, the others may be in the unified hierarchy.
	if unified != nil && byController[cpu] == nil && !slices.Contains(t.all, unified) {
		t.all = append(t.all, unified)
	}
	if t.main == nil {
		return nil, fmt.Errorf("%w: no hierarchy is mounted that accounts for memory", ErrNone)
	}
	return t, nil
}

// mounted returns the hierarchies and this process's cgroup in each.
func mounted(o TreeOptions) (cgroupfs.Hierarchies, cgroupfs.Paths, error) {
	self := filepath.Join(o.Proc, "self")
	info, err := os.ReadFile(filepath.Join(self, "mountinfo")) //nolint:gosec // in the process table
	var mounts []cgroupfs.Mount
	if err == nil {
		mounts, err = cgroupfs.ParseMounts(info)
	}
	if err != nil {
		return cgroupfs.Hierarchies{}, nil, fmt.Errorf("mounts: %w", err)
	}
	own, err := readPaths(self)
	if err != nil {
		return cgroupfs.Hierarchies{}, nil, fmt.Errorf("own cgroup: %w", err)
	}
	return cgroupfs.Hierarchies{Top: o.Root, Mounts: mounts, Stat: func(directory string) error {
		_, err := o.Files.Folders(directory)
		return err //nolint:wrapcheck // it names the folder
	}}, own, nil
}

// readPaths reads the cgroups of a process. process is its folder in the process table.
func readPaths(process string) (cgroupfs.Paths, error) {
	content, err := os.ReadFile(filepath.Join(process, "cgroup")) //nolint:gosec // in the process table
	if err != nil {
		return nil, err //nolint:wrapcheck // it names the file
	}
	return cgroupfs.ParsePaths(content) //nolint:wrapcheck // it says what it is about
}

// process returns the folder of a process in the process table.
func (t *Tree) process(pid int32) string { return filepath.Join(t.proc, strconv.Itoa(int(pid))) }

// Name names the version of cgroups.
func (t *Tree) Name() string {
	if t.main.V1 {
		return "version 1"
	}
	return "version 2"
}

// PathOf returns the cgroup of a process in the hierarchy that accounts for memory. ErrNone: there
// is no such process.
func (t *Tree) PathOf(pid int32) (string, error) {
	cgroups, err := t.cgroupsOf(pid)
	if err != nil {
		return "", err
	}
	if t.main.V1 {
		return cgroups.Of(memory), nil
	}
	return cgroups.Of(cgroupfs.Unified), nil
}

// cgroupsOf reads the cgroups of a process. If its first thread has ended, it reads another thread,
// because the kernel shows the first one at the top of the hierarchy.
func (t *Tree) cgroupsOf(pid int32) (cgroupfs.Paths, error) {
	cgroups, err := readPaths(t.process(t.liveThread(pid)))
	if err != nil {
		return nil, processGone(pid, err)
	}
	return cgroups, nil
}

// liveThread returns the process's first thread, or a running one if the first has ended.
func (t *Tree) liveThread(pid int32) int32 {
	const zombie = "Z"
	if stat, err := t.stat(pid); err != nil || stat.State != zombie || stat.NumThreads <= 1 {
		return pid
	}
	threads, err := os.ReadDir(filepath.Join(t.process(pid), "task"))
	if err != nil {
		return pid
	}
	for _, thread := range threads {
		id, err := strconv.ParseInt(thread.Name(), 10, 32)
		if err != nil {
			continue
		}
		if stat, err := t.stat(int32(id)); err == nil && stat.State != zombie && stat.State != "X" {
			return int32(id)
		}
	}
	return pid
}

// Guarded reports whether only root and this process's user can move processes to the cgroup of
// this path.
func (t *Tree) Guarded(name string) bool {
	folder, visible := t.main.folder(name)
	return visible && t.guarded(folder)
}

// guarded reports whether only root and this process's user can write to the cgroup in this folder
// and to further files in it.
func (t *Tree) guarded(folder string, further ...string) bool {
	for _, file := range append([]string{"", "cgroup.procs", "cgroup.threads", "tasks"}, further...) {
		owner, mode, err := t.files.Owner(filepath.Join(folder, file))
		if cgroupfs.Absent(err) && (file == "cgroup.threads" || file == "tasks") {
			continue // a file of the other version
		}
		if err != nil || owner != 0 && int(owner) != os.Geteuid() || mode&(unix.S_IWGRP|unix.S_IWOTH) != 0 {
			return false
		}
	}
	return true
}

// Still reports whether a member's pid is still its own. It is not if the member has ended.
func (t *Tree) Still(m Member) bool {
	if m.StartTime == 0 {
		return true
	}
	stat, err := t.stat(m.PID)
	return err == nil && stat.Starttime == m.StartTime
}

func (t *Tree) stat(pid int32) (procfs.ProcStat, error) {
	fs, err := procfs.NewFS(t.proc)
	if err != nil {
		return procfs.ProcStat{}, fmt.Errorf("process table: %w", err)
	}
	process, err := fs.Proc(int(pid))
	var stat procfs.ProcStat
	if err == nil {
		stat, err = process.Stat()
	}
	if err != nil {
		if cgroupfs.Absent(err) {
			err = errors.Join(ErrNone, err)
		}
		return procfs.ProcStat{}, fmt.Errorf("process %d: %w", pid, err)
	}
	return stat, nil
}

// cgroupOfParent returns the cgroup of a process's parent. ErrNone: there is no such process.
func (t *Tree) cgroupOfParent(h *hierarchy, pid int32) (string, error) {
	stat, err := t.stat(pid)
	if err != nil {
		return "", err
	}
	if stat.PPID == 0 {
		return h.Root, nil // the kernel's
	}
	cgroups, err := readPaths(t.process(int32(stat.PPID))) //nolint:gosec // a pid
	if err != nil {
		return "", fmt.Errorf("cgroup of process %d: %w", stat.PPID, err)
	}
	return cgroups.Of(h.controller()), nil
}

// Outsiders returns the members that are not in or below the cgroup of this path.
func (t *Tree) Outsiders(name string, members []Member) ([]Member, error) {
	inside, err := t.members(t.main, name)
	if err != nil {
		return nil, err
	}
	var outside []Member
	for _, m := range members {
		if !slices.Contains(inside, m.PID) {
			outside = append(outside, m)
		}
	}
	return outside, nil
}

// read reads a file of a cgroup in the hierarchy that accounts for memory.
func (t *Tree) read(name, file string) (string, error) {
	folder, visible := t.main.folder(name)
	if !visible {
		return "", fmt.Errorf("cgroup %s: %w", name, ErrNone)
	}
	content, err := t.files.Read(filepath.Join(folder, file))
	if err != nil {
		if cgroupfs.Absent(err) {
			err = errors.Join(ErrNone, err)
		}
		return "", fmt.Errorf("cgroup %s: %w", name, err)
	}
	return strings.TrimSpace(string(content)), nil
}

// counters reads a file of lines "name value".
func (t *Tree) counters(name, file string) (map[string]int64, error) {
	content, err := t.read(name, file)
	if err != nil {
		return nil, err
	}
	counters := make(map[string]int64)
	for line := range strings.Lines(content) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if counters[key], err = number(value); err != nil {
			return nil, fmt.Errorf("cgroup %s: %s: %w", name, file, err)
		}
	}
	return counters, nil
}

func number(text string) (int64, error) {
	if text == "max" {
		return math.MaxInt64, nil
	}
	return cgroupfs.Number([]byte(text)) //nolint:wrapcheck // it says what it is about
}

// Facts reads the facts of the cgroup of this path. ErrNone: the cgroup does not exist.
func (t *Tree) Facts(name string) (Facts, error) {
	var facts Facts
	empty, err := t.empty(name)
	if err != nil {
		return Facts{}, err
	}
	facts.Empty = empty
	events, limit := "memory.events", "memory.max"
	if t.main.V1 {
		events, limit = "memory.oom_control", "memory.limit_in_bytes"
	}
	counters, err := t.counters(name, events)
	if errors.Is(err, ErrNone) {
		return facts, nil // without the controller of memory there are no other facts
	}
	if err != nil {
		return Facts{}, err
	}
	facts.OOMKills = counters["oom_kill"] // since Linux 4.13
	if facts.MemoryMax, err = t.memoryMax(name, limit); err != nil {
		return Facts{}, err
	}
	atLimit := counters["oom"] > 0
	if t.main.V1 && facts.MemoryMax > 0 {
		if atLimit, err = t.ranIntoV1(name, facts.MemoryMax); err != nil {
			return Facts{}, err
		}
	}
	facts.AtLimit = facts.MemoryMax > 0 && atLimit
	return facts, nil
}

// memoryMax reads a limit in bytes; 0 means none.
func (t *Tree) memoryMax(name, file string) (int64, error) {
	content, err := t.read(name, file)
	if err != nil {
		return 0, err
	}
	bytes, limited, err := cgroupfs.ParseMemoryMax([]byte(content))
	if err != nil {
		return 0, fmt.Errorf("cgroup %s: %s: %w", name, file, err)
	}
	if !limited {
		return 0, nil
	}
	return bytes, nil
}

// ranIntoV1 reports whether memory has reached a limit. Version 1 counts failures at the limit of
// memory, but not every kernel counts those at the limit of memory and swap. For these it compares
// the peak use: a peak less than one allocation, a huge page at most, below the limit counts as
// reached.
func (t *Tree) ranIntoV1(name string, limit int64) (bool, error) {
	times, err := t.number(name, "memory.failcnt")
	if err != nil {
		return false, err
	}
	most, err := t.number(name, "memory.max_usage_in_bytes")
	return times > 0 || most > limit-hugePage, err
}

// hugePage is the size of a huge page in bytes.
const hugePage = 2 << 20

func (t *Tree) number(name, file string) (int64, error) {
	content, err := t.read(name, file)
	if err != nil {
		return 0, err
	}
	value, err := number(content)
	if err != nil {
		return 0, fmt.Errorf("cgroup %s: %s: %w", name, file, err)
	}
	return value, nil
}

// empty reports whether no process is in a cgroup or below it.
func (t *Tree) empty(name string) (bool, error) {
	if !t.main.V1 {
		events, err := t.counters(name, "cgroup.events")
		return events["populated"] == 0, err
	}
	pids, err := t.members(t.main, name)
	if errors.Is(err, errTooMany) {
		return false, nil // the walk has reached its bound
	}
	return len(pids) == 0, err
}

// Fits refuses a memory limit below the cgroup's memory that the kernel cannot reclaim: with
// version 2, the kernel would kill processes to meet it. ErrInUse: the limit does not fit now. A
// limit of 0 always fits.
func (t *Tree) Fits(name string, limit int64) error {
	if limit == 0 || t.main.V1 {
		return nil // the kernel's version 1 refuses such a limit itself
	}
	current, err := t.number(name, "memory.current")
	if errors.Is(err, ErrNone) {
		return nil
	}
	if err != nil {
		return err
	}
	content, err := t.read(name, "memory.stat")
	if err != nil {
		return err
	}
	stat, err := cgroupfs.ParseMemoryStat([]byte(content), false)
	if err != nil {
		return fmt.Errorf("cgroup %s: %w", name, err)
	}
	if held := stat.Held(current); held > limit {
		return fmt.Errorf("cgroup %s holds %d bytes of memory, the limit would be %d: %w", name, held, limit, ErrInUse)
	}
	return nil
}
