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

// engines is the name of the cgroup that has those of engines below it.
const engines = "bursar-engines"

// Direct makes cgroups with the kernel's files. Make it with OpenDirect. It is a Driver. Until the
// first engine gets a cgroup nothing is made or changed.
type Direct struct {
	tree *Tree
	// base is the cgroup that has those of engines below it, the same path in all hierarchies.
	base string

	mu sync.Mutex
	// prepared: the base is there.
	prepared bool // guarded by mu
	// missing are the controllers that no hierarchy has for us.
	missing []string // guarded by mu; once prepared, it does not change
}

var _ Driver = (*Direct)(nil)

// DirectOptions say where.
type DirectOptions struct {
	// Parent is the cgroup below which they are made. Default: the one above this process's own,
	// if it can be seen.
	Parent string
	Tree   TreeOptions
}

// OpenDirect finds out where cgroups can be made. ErrNone: there are none here.
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

// Prepare makes the cgroup that has those of engines below it, and enables its controllers, unless
// that is done already. It fails if that is not allowed, and, with version 2, if a cgroup on the
// way has processes of its own (ErrBusy). All that makes a cgroup for an engine calls it first.
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

// Writable reports whether this process may make cgroups where they are to be made.
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

// levels are the cgroups from the top of the mount to the base, the base last.
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

// enable enables the controllers of version 2 down to the base, as far as they are there, and
// returns those that the base has.
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

// Name says where cgroups are made and, once there are any, what they cannot do.
func (d *Direct) Name() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	name := fmt.Sprintf("direct, %s, below %s", d.tree.Name(), d.base)
	if len(d.missing) > 0 {
		name += ", without " + strings.Join(d.missing, " and ")
	}
	return name
}

// Close removes the cgroup that has those of engines below it, if there are none.
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

// Enter makes the cgroup of an engine that is about to be started, and moves its first process
// there before that starts others: so all of the engine is charged to it. It returns the cgroup's
// path, and an error next to it if the limits could not all be set.
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
		// Else an engine that is moved there later would seem to have been there from the start.
		return "", errors.Join(err, limitErr, d.removeAll(id))
	}
	return name, limitErr
}

// create makes a cgroup. There is a name unless it could not be made.
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

// path finds the cgroup of an engine. ErrNone: it has none.
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

// PathOf is that of Driver.
func (d *Direct) PathOf(pid int32) (string, error) { return d.tree.PathOf(pid) }

// Lost is that of Driver.
func (d *Direct) Lost(pid int32) (string, error) { return d.tree.Lost(pid, d.base) }

// Set is that of Driver. ErrInUse: the engine holds more memory than the limit would be.
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

// Facts is that of Driver.
func (d *Direct) Facts(_ context.Context, id string) (Facts, error) {
	name, err := d.path(id)
	if err != nil {
		return Facts{}, err
	}
	return d.tree.Facts(name)
}

// Guarded is that of Tree.
func (d *Direct) Guarded(name string) bool { return d.tree.Guarded(name) }

// Freeze is that of Tree.
func (d *Direct) Freeze(ctx context.Context, name string) (bool, error) {
	return d.tree.Freeze(ctx, name)
}

// Thaw is that of Tree.
func (d *Direct) Thaw(name string) error { return d.tree.Thaw(name) }

// Find is that of Driver.
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

// Remove is that of Driver. Cgroups that the engine made below its own go with it.
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
	// This one first: Find does not see it.
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
