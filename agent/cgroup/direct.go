package cgroup

import (
	"context"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/bursar/bursar/internal/cgroupfs"
)

// engines is the name of the parent cgroup of all engines' cgroups.
const engines = "bursar-engines"

// Direct is a Driver that makes cgroups with the kernel's files. OpenDirect returns one. It changes
// nothing until the first engine gets a cgroup.
type Direct struct {
	tree *Tree
	// base is the path of the parent of all engines' cgroups, the same in all hierarchies.
	base string

	mu sync.Mutex
	// prepared is set once the base exists.
	prepared bool // guarded by mu
	// missing are the controllers that no hierarchy provides to us.
	missing []string // guarded by mu; once prepared, it does not change
}

var _ Driver = (*Direct)(nil)

// DirectOptions say where Direct makes cgroups.
type DirectOptions struct {
	// Parent is the cgroup below which they are made. The default is the parent of this process's
	// own cgroup, if it is visible.
	Parent string
	Tree   TreeOptions
}

// OpenDirect finds the mounted hierarchies and the base. ErrNone: this machine has no cgroups.
func OpenDirect(o DirectOptions) (*Direct, error) {
	tree, err := OpenTree(o.Tree)
	if err != nil {
		return nil, err
	}
	parent := o.Parent
	if parent == "" {
		parent = path.Dir(tree.main.own)
		if _, visible := tree.main.folder(parent); !visible {
			parent = tree.main.own
		}
		if _, visible := tree.main.folder(parent); !visible {
			parent = tree.main.Root // in a container that has the machine's names
		}
	}
	d := &Direct{tree: tree, base: path.Join("/", parent, engines)}
	for _, h := range tree.all {
		if _, err := d.levels(h); err != nil {
			return nil, err
		}
	}
	return d, nil
}

// Prepare makes the base and enables its controllers, unless that is done already. It fails without
// permission, and, with version 2, if a cgroup on the way has processes of its own (ErrBusy). Every
// method that makes a cgroup for an engine calls it first.
func (d *Direct) Prepare() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.prepared {
		return nil
	}
	if err := d.prepareLocked(); err != nil {
		return err
	}
	d.prepared = true
	return nil
}

// Writable reports whether this process may make cgroups below the base.
func (d *Direct) Writable() bool {
	for _, h := range d.tree.all {
		levels, _ := d.levels(h)
		for _, level := range slices.Backward(levels) {
			folder, _ := h.folder(level)
			err := unix.Access(folder, unix.W_OK)
			if err == nil {
				break
			}
			if !cgroupfs.Absent(err) {
				return false
			}
		}
	}
	return true
}

func (d *Direct) prepareLocked() error {
	found := make(map[string]bool)
	for _, h := range d.tree.all {
		if err := d.makeBase(h); err != nil {
			return err
		}
		arrived := h.controllers
		if !h.V1 {
			var err error
			if arrived, err = d.enable(h); err != nil {
				return err
			}
		}
		for _, controller := range arrived {
			found[controller] = true
		}
	}
	d.missing = nil
	for _, controller := range []string{memory, cpu} {
		if !found[controller] {
			d.missing = append(d.missing, controller)
		}
	}
	return nil
}

// levels lists the cgroups from the top of the mount to the base, the base last.
func (d *Direct) levels(h *hierarchy) ([]string, error) {
	if _, visible := h.folder(d.base); !visible {
		return nil, fmt.Errorf("cgroup %s is not below %s, which is all that is mounted at %s: %w", d.base, h.Root, h.Point, ErrNone)
	}
	levels := []string{d.base}
	for name := d.base; name != h.Root; {
		name = path.Dir(name)
		levels = append(levels, name)
	}
	slices.Reverse(levels)
	return levels, nil
}

func (d *Direct) makeBase(h *hierarchy) error {
	levels, err := d.levels(h)
	if err != nil {
		return err
	}
	for _, level := range levels[1:] {
		folder, _ := h.folder(level)
		if err := ensure(d.tree.files, folder); err != nil {
			return err
		}
	}
	return nil
}

// enable enables the available controllers of version 2 down to the base, and returns the
// controllers of the base.
func (d *Direct) enable(h *hierarchy) ([]string, error) {
	levels, err := d.levels(h)
	if err != nil {
		return nil, err
	}
	wanted := []string{memory, cpu}
	for _, level := range levels {
		folder, _ := h.folder(level)
		available, err := d.words(filepath.Join(folder, "cgroup.controllers"))
		if err != nil {
			return nil, err
		}
		control := filepath.Join(folder, "cgroup.subtree_control")
		enabled, err := d.words(control)
		if err != nil {
			return nil, err
		}
		var arrived []string
		for _, controller := range wanted {
			switch {
			case slices.Contains(enabled, controller):
			case !slices.Contains(available, controller):
				continue
			default:
				err := d.tree.files.Write(control, "+"+controller)
				if errors.Is(err, syscall.EBUSY) {
					return nil, fmt.Errorf("cgroup %s has processes of its own and cannot hand on the controller %s (move them to a cgroup below it): %w",
						level, controller, errors.Join(ErrBusy, err))
				}
				if err != nil {
					return nil, fmt.Errorf("cgroup %s: controller %s: %w", level, controller, err)
				}
			}
			arrived = append(arrived, controller)
		}
		wanted = arrived
	}
	return wanted, nil
}

func (d *Direct) words(file string) ([]string, error) {
	content, err := d.tree.files.Read(file)
	if err != nil {
		return nil, fmt.Errorf("controllers: %w", err)
	}
	return strings.Fields(string(content)), nil
}

// Name names the base and, once it is prepared, the missing controllers.
func (d *Direct) Name() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	name := fmt.Sprintf("direct, %s, below %s", d.tree.Name(), d.base)
	if len(d.missing) > 0 {
		name += ", without " + strings.Join(d.missing, " and ")
	}
	return name
}

// Close removes the base if it has no engines' cgroups.
func (d *Direct) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.prepared = false
	used := slices.Clone(d.tree.all)
	if d.tree.freezer != nil {
		used = append(used, d.tree.freezer)
	}
	for _, h := range used {
		folder, visible := h.folder(d.base)
		if !visible {
			continue
		}
		if err := d.tree.files.Rmdir(folder); err != nil && !cgroupfs.Absent(err) && !errors.Is(err, syscall.EBUSY) {
			return fmt.Errorf("removing a cgroup: %w", err)
		}
	}
	return nil
}

// Enter makes the cgroup of an engine that is about to start. It moves the engine's first process
// there before that process starts others, so the whole engine is charged to the cgroup. It returns
// the cgroup's path, and also an error if not all limits could be set.
func (d *Direct) Enter(_ context.Context, id string, limits Limits, pid int32) (string, error) {
	if err := CheckID(id); err != nil {
		return "", err
	}
	if err := d.Prepare(); err != nil {
		return "", err
	}
	name, limitErr := d.create(id, limits)
	if name == "" {
		return "", limitErr
	}
	if _, err := d.moveOutsiders(name, []Member{{PID: pid}}, nil); err != nil {
		// Otherwise an engine that is moved there later would seem to have started there.
		return "", errors.Join(err, limitErr, d.removeAll(id))
	}
	return name, limitErr
}

// create makes a cgroup. It returns "" only if the cgroup could not be made.
func (d *Direct) create(base string, limits Limits) (string, error) {
	name := path.Join(d.base, base)
	for _, h := range d.tree.all {
		folder, _ := h.folder(name)
		if err := ensure(d.tree.files, folder); err != nil {
			return "", err
		}
	}
	return name, d.set(name, limits)
}

// path returns the cgroup of an engine. ErrNone: the engine has none.
func (d *Direct) path(id string) (string, error) {
	if err := CheckID(id); err != nil {
		return "", err
	}
	for _, suffix := range []string{"", adoptedSuffix} {
		name := path.Join(d.base, id+suffix)
		folder, _ := d.tree.main.folder(name)
		_, err := d.tree.files.Read(filepath.Join(folder, "cgroup.procs"))
		if err == nil {
			return name, nil
		}
		if !cgroupfs.Absent(err) {
			return "", fmt.Errorf("cgroup %s: %w", name, err)
		}
	}
	return "", fmt.Errorf("engine %s: %w", id, ErrNone)
}

// PathOf implements Driver.
func (d *Direct) PathOf(pid int32) (string, error) { return d.tree.PathOf(pid) }

// Lost implements Driver.
func (d *Direct) Lost(pid int32) (string, error) { return d.tree.Lost(pid, d.base) }

// Set implements Driver. ErrInUse: the engine holds more memory than the new limit.
func (d *Direct) Set(_ context.Context, id string, limits Limits) error {
	name, err := d.path(id)
	if err == nil {
		err = d.Prepare()
	}
	if err != nil {
		return err
	}
	return d.set(name, limits)
}

// Facts implements Driver.
func (d *Direct) Facts(_ context.Context, id string) (Facts, error) {
	name, err := d.path(id)
	if err != nil {
		return Facts{}, err
	}
	return d.tree.Facts(name)
}

// Guarded forwards to Tree.
func (d *Direct) Guarded(name string) bool { return d.tree.Guarded(name) }

// Freeze forwards to Tree.
func (d *Direct) Freeze(ctx context.Context, name string) (bool, error) {
	return d.tree.Freeze(ctx, name)
}

// Thaw forwards to Tree.
func (d *Direct) Thaw(name string) error { return d.tree.Thaw(name) }

// Find implements Driver.
func (d *Direct) Find(context.Context) ([]Found, error) {
	folder, _ := d.tree.main.folder(d.base)
	names, err := d.tree.files.Folders(folder)
	if cgroupfs.Absent(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cgroups of engines: %w", err)
	}
	var found []Found
	for _, name := range names {
		if id := strings.TrimSuffix(name, adoptedSuffix); CheckID(id) == nil {
			found = append(found, Found{ID: id, Path: path.Join(d.base, name)})
		}
	}
	return found, nil
}

// Remove implements Driver. It also removes the cgroups that the engine made below its own.
func (d *Direct) Remove(_ context.Context, id string) error {
	if err := CheckID(id); err != nil {
		return err
	}
	for _, suffix := range []string{"", adoptedSuffix} {
		if err := d.removeAll(id + suffix); err != nil {
			return err
		}
	}
	return nil
}

// removeAll removes a cgroup from all hierarchies.
func (d *Direct) removeAll(base string) error {
	name := path.Join(d.base, base)
	// The freezer's cgroup goes first, because Find does not list it.
	if err := d.tree.RemoveFreezable(name); err != nil {
		return err
	}
	for _, h := range d.tree.all {
		folder, _ := h.folder(name)
		if err := d.tree.remove(folder); err != nil {
			return err
		}
	}
	return nil
}

func (t *Tree) remove(folder string) error {
	children, err := t.files.Folders(folder)
	if cgroupfs.Absent(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("removing a cgroup: %w", err)
	}
	for _, child := range children {
		if err := t.remove(filepath.Join(folder, child)); err != nil {
			return err
		}
	}
	err = t.files.Rmdir(folder)
	switch {
	case err == nil, cgroupfs.Absent(err):
		return nil
	case errors.Is(err, syscall.EBUSY):
		return fmt.Errorf("%w: %w", ErrBusy, err)
	}
	return fmt.Errorf("removing a cgroup: %w", err)
}
