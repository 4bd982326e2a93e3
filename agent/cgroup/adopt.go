package cgroup

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
)

// adoptRounds bounds how often a process tree is read again. An engine that forks all the time
// needs two or three rounds.
const adoptRounds = 50

// Adopt implements Driver. A process that starts during a round is inside if its parent was inside;
// otherwise the next round finds it. If the engine was moved but not all limits could be set, Adopt
// returns both a path and an error.
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
	moved := make(map[Member]bool)
	for range adoptRounds {
		if err := ctx.Err(); err != nil {
			return err //nolint:wrapcheck // the caller's own
		}
		// Adopt lists the engine's processes first: a process that is not listed was started by a
		// process that was inside by then.
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
		for _, m := range outside {
			moved[m] = true
		}
	}
	return fmt.Errorf("cgroup %s: the engine starts processes faster than they can be moved", name)
}

// moveOutsiders moves the processes that are outside in any hierarchy. It returns them, and those
// that have ended in the meantime, so that the caller looks again for their children. A process in
// before that is still outside is a zombie.
func (d *Direct) moveOutsiders(name string, members []Member, before map[Member]bool) (outside []Member, err error) {
	// First, so that the next round finds a process that starts in the meantime. After an error the
	// engine is moved all the same; the agent then stops it like an engine without a cgroup.
	outside, _ = d.tree.MakeFreezable(name, slices.DeleteFunc(slices.Clone(members), func(m Member) bool { return before[m] }))
	for _, h := range d.tree.all {
		inside, err := d.tree.members(h, name)
		if err != nil {
			return nil, err
		}
		folder, _ := h.folder(name)
		for _, m := range members {
			if before[m] || slices.Contains(inside, m.PID) {
				continue
			}
			outside = append(outside, m)
			if err := d.tree.move(h, folder, m); err != nil {
				return nil, fmt.Errorf("moving process %d to cgroup %s: %w", m.PID, name, err)
			}
		}
	}
	return outside, nil
}

// move moves a process, unless it has ended, to the cgroup in this folder.
func (t *Tree) move(h *hierarchy, folder string, m Member) error {
	if !t.Still(m) {
		return nil
	}
	err := t.files.Write(filepath.Join(folder, "cgroup.procs"), strconv.Itoa(int(m.PID)))
	if errors.Is(err, syscall.ESRCH) {
		return nil // it is gone
	}
	if err == nil && !t.Still(m) {
		return t.putBack(h, m.PID)
	}
	return err //nolint:wrapcheck // it names the file
}

// putBack moves a process back to the cgroup of its parent. The process reuses the pid of a member
// that ended just before the move. Inside, it would be under the engine's limits and be stopped
// with the engine.
func (t *Tree) putBack(h *hierarchy, pid int32) error {
	parent, err := t.cgroupOfParent(h, pid)
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
	err = t.files.Write(filepath.Join(folder, "cgroup.procs"), strconv.Itoa(int(pid)))
	if errors.Is(err, syscall.ESRCH) {
		return nil
	}
	return err //nolint:wrapcheck // it names the file
}
