package cgroup

import (
	"context"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// engines is the name of the cgroup that has those of engines below it.
const engines = "bursar-engines"

// Direct makes cgroups with the kernel's files. Make it with OpenDirect. It is a Driver. Until the first engine gets a cgroup nothing is
// made or changed.
type Direct struct {
	tree *Tree
	// base is the cgroup that has those of engines below it, the same path in all hierarchies.
	base string

	mu sync.Mutex
	// prepared: the base is there.
	prepared bool // guarded by mu
	// missing are the controllers that no hierarchy has for us.
	missing []string // guarded by mu; once prepared, nobody changes it
}

var _ Driver = (*Direct)(nil)

// DirectOptions say where.
type DirectOptions struct {
	// Parent is the cgroup below which they are made. Default: that above this process's own, where it can be seen.
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
			parent = tree.main.root // in a container that has the machine's names
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

// Prepare makes the cgroup that has those of engines below it, and sees that it can give limits, unless that is done already. It fails
// where that is not allowed, and, with version 2, where a cgroup on the way has processes of its own (ErrBusy). Whatever makes a
// cgroup for an engine does it too.
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
			if !gone(err) {
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
		if !h.v1 {
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
		return nil, fmt.Errorf("cgroup %s is not below %s, which is all that is mounted at %s: %w", d.base, h.root, h.point, ErrNone)
	}
	levels := []string{d.base}
	for name := d.base; name != h.root; {
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

// enable hands the controllers of version 2 down to the base, as far as they are there, and returns those that arrived.
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

// Close removes what has those of engines below it, where there are none.
func (d *Direct) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.prepared = false
	for _, h := range d.tree.all {
		folder, _ := h.folder(d.base)
		if err := d.tree.files.Rmdir(folder); err != nil && !gone(err) && !errors.Is(err, syscall.EBUSY) {
			return fmt.Errorf("removing a cgroup: %w", err)
		}
	}
	return nil
}

// Enter makes the cgroup of an engine that is about to be started and moves its first process there, which has started nothing else yet:
// all that the engine will be is charged to it. It returns the cgroup's path, with an error too where the limits could not all be set.
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
		if !gone(err) {
			return "", fmt.Errorf("cgroup %s: %w", name, err)
		}
	}
	return "", fmt.Errorf("engine %s: %w", id, ErrNone)
}

// adoptRounds is how often a tree is looked at again. An engine that forks all the time needs two or three.
const adoptRounds = 50

// Adopt is that of Driver. What has started during a look was started by a process that was inside already, or is found by the next.
// A path comes back with an error too where the engine was moved and its limits could not all be set.
func (d *Direct) Adopt(ctx context.Context, id string, limits Limits, members Members) (string, error) {
	if err := CheckID(id); err != nil {
		return "", err
	}
	if err := d.Prepare(); err != nil {
		return "", err
	}
	name, err := d.path(id)
	if errors.Is(err, ErrNone) {
		name, err = d.create(id+adoptedSuffix, limits)
	} else if err == nil {
		err = d.set(name, limits)
	}
	if name == "" {
		return "", err
	}
	limitErr := err
	if err := d.adopt(ctx, name, members); err != nil {
		return "", errors.Join(err, limitErr)
	}
	return name, limitErr
}

func (d *Direct) adopt(ctx context.Context, name string, members Members) error {
	moved := make(map[int32]bool)
	for range adoptRounds {
		if err := ctx.Err(); err != nil {
			return err //nolint:wrapcheck // the caller's own
		}
		// The engine's processes first: who is not among them was started by one that was inside by then.
		list, err := members()
		if err != nil {
			return err
		}
		outside, err := d.moveOutsiders(name, list, moved)
		if err != nil {
			return err
		}
		if len(outside) == 0 {
			return nil
		}
		for _, pid := range outside {
			moved[pid] = true
		}
	}
	return fmt.Errorf("cgroup %s: the engine starts processes faster than they can be moved", name)
}

// moveOutsiders moves those of the processes that are not inside everywhere, and returns them. One that was moved before and is outside
// all the same has ended, and waits for its parent to take note.
func (d *Direct) moveOutsiders(name string, members []Member, before map[int32]bool) (outside []int32, err error) {
	for _, h := range d.tree.all {
		inside, err := d.tree.members(h, name)
		if err != nil {
			return nil, err
		}
		folder, _ := h.folder(name)
		for _, m := range members {
			if before[m.PID] || slices.Contains(inside, m.PID) || !d.tree.Still(m) {
				continue
			}
			err := d.tree.files.Write(filepath.Join(folder, "cgroup.procs"), strconv.Itoa(int(m.PID)))
			if errors.Is(err, syscall.ESRCH) {
				continue // it is gone
			}
			if err == nil && !d.tree.Still(m) {
				err = d.putBack(h, m.PID)
			}
			if err != nil {
				return nil, fmt.Errorf("moving process %d to cgroup %s: %w", m.PID, name, err)
			}
			outside = append(outside, m.PID)
		}
	}
	return outside, nil
}

// putBack moves a process to where it came from, which is where its parent is: it has got the pid of a member that ended just when that was
// moved, and would be kept to the engine's limits and stopped with it.
func (d *Direct) putBack(h *hierarchy, pid int32) error {
	parent, err := d.tree.cgroupOfParent(h, pid)
	if errors.Is(err, ErrNone) {
		return nil // it has ended, too
	}
	if err != nil {
		return err
	}
	folder, visible := h.folder(parent)
	if !visible {
		return fmt.Errorf("cgroup %s is not seen here: %w", parent, ErrNone)
	}
	err = d.tree.files.Write(filepath.Join(folder, "cgroup.procs"), strconv.Itoa(int(pid)))
	if errors.Is(err, syscall.ESRCH) {
		return nil
	}
	return err //nolint:wrapcheck // it names the file
}

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

// Find is that of Driver.
func (d *Direct) Find(context.Context) ([]Found, error) {
	folder, _ := d.tree.main.folder(d.base)
	names, err := d.tree.files.Folders(folder)
	if gone(err) {
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
	for _, h := range d.tree.all {
		folder, _ := h.folder(path.Join(d.base, base))
		if err := d.remove(folder); err != nil {
			return err
		}
	}
	return nil
}

func (d *Direct) remove(folder string) error {
	children, err := d.tree.files.Folders(folder)
	if gone(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("removing a cgroup: %w", err)
	}
	for _, child := range children {
		if err := d.remove(filepath.Join(folder, child)); err != nil {
			return err
		}
	}
	err = d.tree.files.Rmdir(folder)
	switch {
	case err == nil, gone(err):
		return nil
	case errors.Is(err, syscall.EBUSY):
		return fmt.Errorf("%w: %w", ErrBusy, err)
	}
	return fmt.Errorf("removing a cgroup: %w", err)
}
