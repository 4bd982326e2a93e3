package cgroup

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"
)

// What is asked of the kernel here. Processor time is accounted by a controller of its own with version 1.
const (
	memory     = "memory"
	cpu        = "cpu"
	accounting = "cpuacct"
)

// unlimitedV1 and everything above it is version 1's way to say "max": the highest multiple of the page size below 2^63.
const unlimitedV1 = 1 << 60

// hierarchy is one mounted hierarchy of cgroups.
type hierarchy struct {
	// point is where it is mounted, root the cgroup that is seen there.
	point, root string
	v1          bool
	// own is the cgroup of this process.
	own string
	// controllers of version 1; those of version 2 depend on the cgroup.
	controllers []string
}

// folder is where the files of a cgroup are; false: the mount does not show it.
func (h *hierarchy) folder(name string) (string, bool) {
	if strings.HasPrefix(name, "/..") || strings.HasPrefix(h.root, "/..") {
		return "", false // outside of the namespace of this process
	}
	name = path.Clean("/" + name)
	if h.root != "/" {
		if name != h.root && !strings.HasPrefix(name, h.root+"/") {
			return "", false
		}
		name = name[len(h.root):]
	}
	return filepath.Join(h.point, name), true
}

// Tree is the machine's cgroups, as this process sees them. It keeps nothing but where they are.
type Tree struct {
	files Files
	proc  string
	// main has the hierarchy that accounts for memory; where none does, the unified one. A cgroup's path is its path there.
	main *hierarchy
	// all has main and the others that are used.
	all []*hierarchy
}

// TreeOptions are for tests; the zero value is this machine.
type TreeOptions struct {
	// Proc is the process table, /proc. Mount points in it are below Root.
	Proc, Root string
	Files      Files
}

// OpenTree finds the hierarchies. ErrNone: there are none.
func OpenTree(o TreeOptions) (*Tree, error) {
	if o.Proc == "" {
		o.Proc = procfs.DefaultMountPoint
	}
	if o.Files == nil {
		o.Files = kernel{}
	}
	self, err := ownProcess(o.Proc)
	if err != nil {
		return nil, err
	}
	mounts, err := self.MountInfo()
	if err != nil {
		return nil, fmt.Errorf("mounts: %w", err)
	}
	cgroups, err := self.Cgroups()
	if err != nil {
		return nil, fmt.Errorf("own cgroup: %w", err)
	}
	t := &Tree{files: o.Files, proc: o.Proc}
	byController := make(map[string]*hierarchy)
	var unified *hierarchy
	for _, mount := range mounts {
		h := &hierarchy{point: filepath.Join(o.Root, mount.MountPoint), root: mount.Root}
		switch mount.FSType {
		case "cgroup2":
			h.own, unified = ownPath(cgroups, ""), h
		case "cgroup":
			h.v1 = true
			for _, controller := range []string{memory, cpu, accounting} {
				if _, has := mount.SuperOptions[controller]; has {
					h.controllers = append(h.controllers, controller)
					byController[controller] = h
				}
			}
			if len(h.controllers) > 0 {
				h.own = ownPath(cgroups, h.controllers[0])
			}
		}
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
	// Where only some controllers are version 1's, the others may be the unified hierarchy's.
	if unified != nil && byController[cpu] == nil && !slices.Contains(t.all, unified) {
		t.all = append(t.all, unified)
	}
	if t.main == nil {
		return nil, fmt.Errorf("%w: no hierarchy is mounted that accounts for memory", ErrNone)
	}
	return t, nil
}

func ownProcess(proc string) (procfs.Proc, error) {
	fs, err := procfs.NewFS(proc)
	if err != nil {
		return procfs.Proc{}, fmt.Errorf("process table: %w", err)
	}
	self, err := fs.Self()
	if err != nil {
		return procfs.Proc{}, fmt.Errorf("process table: %w", err)
	}
	return self, nil
}

// ownPath is the cgroup of this process in the hierarchy of a controller of version 1, or, for "", the unified one.
func ownPath(cgroups []procfs.Cgroup, controller string) string {
	for _, c := range cgroups {
		if controller == "" && c.HierarchyID == 0 || controller != "" && slices.Contains(c.Controllers, controller) {
			return c.Path
		}
	}
	return "/"
}

// Name says which version this is.
func (t *Tree) Name() string {
	if t.main.v1 {
		return "version 1"
	}
	return "version 2"
}

// PathOf returns the cgroup of a process in the hierarchy that accounts for memory. ErrNone: there is no such process.
func (t *Tree) PathOf(pid int32) (string, error) {
	cgroups, err := t.cgroupsOf(pid)
	if err != nil {
		return "", err
	}
	if t.main.v1 {
		return ownPath(cgroups, memory), nil
	}
	return ownPath(cgroups, ""), nil
}

// cgroupsOf reads in which cgroups a process is. Of one whose first thread has ended, another thread tells: the kernel shows that the first
// is at the top.
func (t *Tree) cgroupsOf(pid int32) ([]procfs.Cgroup, error) {
	fs, err := procfs.NewFS(t.proc)
	if err != nil {
		return nil, fmt.Errorf("process table: %w", err)
	}
	var cgroups []procfs.Cgroup
	process, err := fs.Proc(int(t.liveThread(pid)))
	if err == nil {
		cgroups, err = process.Cgroups()
	}
	if err != nil {
		return nil, processGone(pid, err)
	}
	return cgroups, nil
}

// liveThread is the process's first thread, or one that runs where that has ended before the others.
func (t *Tree) liveThread(pid int32) int32 {
	const zombie = "Z"
	if stat, err := t.stat(pid); err != nil || stat.State != zombie || stat.NumThreads <= 1 {
		return pid
	}
	threads, err := os.ReadDir(filepath.Join(t.proc, strconv.Itoa(int(pid)), "task"))
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

// Guarded reports whether nobody but root and this process's user can move processes to the cgroup of this path.
func (t *Tree) Guarded(name string) bool {
	folder, visible := t.main.folder(name)
	if !visible {
		return false
	}
	for _, file := range []string{"", "cgroup.procs", "cgroup.threads", "tasks"} {
		var stat unix.Stat_t
		err := unix.Stat(filepath.Join(folder, file), &stat)
		if gone(err) && (file == "cgroup.threads" || file == "tasks") {
			continue // the other version's
		}
		if err != nil || stat.Uid != 0 && int(stat.Uid) != os.Geteuid() || stat.Mode&(unix.S_IWGRP|unix.S_IWOTH) != 0 {
			return false
		}
	}
	return true
}

// Still reports whether a member's pid is its own. Of one that has ended it is not.
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
		if gone(err) {
			err = errors.Join(ErrNone, err)
		}
		return procfs.ProcStat{}, fmt.Errorf("process %d: %w", pid, err)
	}
	return stat, nil
}

// cgroupOfParent returns where the parent of a process is. ErrNone: there is no such process.
func (t *Tree) cgroupOfParent(h *hierarchy, pid int32) (string, error) {
	stat, err := t.stat(pid)
	if err != nil {
		return "", err
	}
	if stat.PPID == 0 {
		return h.root, nil // the kernel's
	}
	fs, err := procfs.NewFS(t.proc)
	if err != nil {
		return "", fmt.Errorf("process table: %w", err)
	}
	parent, err := fs.Proc(stat.PPID)
	var cgroups []procfs.Cgroup
	if err == nil {
		cgroups, err = parent.Cgroups()
	}
	if err != nil {
		return "", fmt.Errorf("cgroup of process %d: %w", stat.PPID, err)
	}
	if h.v1 {
		return ownPath(cgroups, h.controllers[0]), nil
	}
	return ownPath(cgroups, ""), nil
}

// Outsiders are those of the processes that are not in the cgroup of this path, nor below it.
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
		if gone(err) {
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
	value, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("want a number: %w", err)
	}
	return int64(min(value, math.MaxInt64)), nil
}

// Facts reads what there is to know of the cgroup of this path. ErrNone: it is not there.
func (t *Tree) Facts(name string) (Facts, error) {
	var facts Facts
	empty, err := t.empty(name)
	if err != nil {
		return Facts{}, err
	}
	facts.Empty = empty
	events, limit := "memory.events", "memory.max"
	if t.main.v1 {
		events, limit = "memory.oom_control", "memory.limit_in_bytes"
	}
	counters, err := t.counters(name, events)
	if errors.Is(err, ErrNone) {
		return facts, nil // without the controller of memory there is no more to know
	}
	if err != nil {
		return Facts{}, err
	}
	facts.OOMKills = counters["oom_kill"] // since Linux 4.13
	bytes, err := t.number(name, limit)
	if err != nil {
		return Facts{}, err
	}
	if bytes < unlimitedV1 {
		facts.MemoryMax = bytes
	}
	atLimit := counters["oom"] > 0
	if t.main.v1 && facts.MemoryMax > 0 {
		if atLimit, err = t.ranIntoV1(name, facts.MemoryMax); err != nil {
			return Facts{}, err
		}
	}
	facts.AtLimit = facts.MemoryMax > 0 && atLimit
	return facts, nil
}

// ranIntoV1 reports whether memory ran into a limit. Version 1 counts that for the limit of memory, and not in every kernel for that of
// memory and swap together; then it shows in the most that was ever in use, which stays below the limit by less than what is asked for
// at a time: a huge page at most.
func (t *Tree) ranIntoV1(name string, limit int64) (bool, error) {
	times, err := t.number(name, "memory.failcnt")
	if err != nil {
		return false, err
	}
	most, err := t.number(name, "memory.max_usage_in_bytes")
	return times > 0 || most > limit-hugePage, err
}

// hugePage is in bytes.
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
	if !t.main.v1 {
		events, err := t.counters(name, "cgroup.events")
		return events["populated"] == 0, err
	}
	pids, err := t.members(t.main, name)
	if errors.Is(err, errTooMany) {
		return false, nil // nobody has looked at all of them
	}
	return len(pids) == 0, err
}

// Fits refuses a limit of memory below what the cgroup holds and the kernel cannot take back: to make room for it with version 2, the
// kernel would kill. ErrInUse: not now. A limit of 0 always fits.
func (t *Tree) Fits(name string, limit int64) error {
	if limit == 0 || t.main.v1 {
		return nil // version 1 refuses it by itself
	}
	current, err := t.number(name, "memory.current")
	if errors.Is(err, ErrNone) {
		return nil
	}
	if err != nil {
		return err
	}
	stat, err := t.counters(name, "memory.stat")
	if err != nil {
		return err
	}
	held := current - stat["active_file"] - stat["inactive_file"] - stat["slab_reclaimable"]
	if held > limit {
		return fmt.Errorf("cgroup %s holds %d bytes of memory, the limit would be %d: %w", name, held, limit, ErrInUse)
	}
	return nil
}
