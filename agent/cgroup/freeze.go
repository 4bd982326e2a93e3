package cgroup

import (
	"context"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/bursar/bursar/internal/cgroupfs"
)

// freezer is version 1's controller that stops the processes of a cgroup. Version 2 can freeze
// every cgroup.
const freezer = "freezer"

const (
	// freezeTimeout bounds the wait until all processes have stopped. A process that waits for a
	// disk stops only when the disk has answered.
	freezeTimeout = 2 * time.Second
	// freezeLook is the time between two reads of the state. Most cgroups are frozen at the first
	// read.
	freezeLook = time.Millisecond
)

// ErrNoFreezing says that the processes of a cgroup cannot be frozen. Either the kernel cannot
// freeze, or the agent has not made the cgroup, or others may write to it, or the agent itself is
// in it.
var ErrNoFreezing = errors.New("its processes cannot be frozen")

// freezing is a file by which the kernel freezes the processes of one cgroup.
type freezing struct {
	hierarchy *hierarchy
	folder    string
	// The caller writes on or off to file. The kernel shows frozen in the file state.
	file, on, off string
	state, frozen string
}

// freezings lists the possible freezings of the cgroup of this path, the better one first. A
// machine with both versions may have one in each.
func (t *Tree) freezings(name string) (places []freezing) {
	if t.unified != nil {
		if folder, visible := t.unified.folder(name); visible {
			places = append(places, freezing{t.unified, folder, "cgroup.freeze", "1", "0", "cgroup.events", "frozen 1"})
		}
	}
	if t.freezer != nil {
		if folder, visible := t.freezer.folder(name); visible {
			places = append(places, freezing{t.freezer, folder, "freezer.state", "FROZEN", "THAWED", "freezer.state", "FROZEN"})
		}
	}
	return places
}

// Freeze stops all processes in and below the cgroup of this path until Thaw, so none of them can
// start another one. It reports whether all have stopped within two seconds. If not, or after an
// error, some may have stopped: the caller must always call Thaw.
//
// ErrNoFreezing: they cannot be frozen. Freeze never freezes a cgroup that is not an engine's.
func (t *Tree) Freeze(ctx context.Context, name string) (all bool, err error) {
	at, err := t.freezing(name)
	if err != nil {
		return false, err
	}
	if err := t.files.Write(filepath.Join(at.folder, at.file), at.on); err != nil {
		return false, fmt.Errorf("freezing cgroup %s: %w", name, err)
	}
	patience, cancel := context.WithTimeout(ctx, freezeTimeout)
	defer cancel()
	look := time.NewTicker(freezeLook)
	defer look.Stop()
	for {
		state, err := t.files.Read(filepath.Join(at.folder, at.state))
		if err != nil {
			return false, fmt.Errorf("freezing cgroup %s: %w", name, err)
		}
		for line := range strings.Lines(string(state)) {
			if strings.TrimSpace(line) == at.frozen {
				return true, t.reaches(at, name)
			}
		}
		select {
		case <-look.C:
		case <-patience.Done():
			return false, ctx.Err() //nolint:wrapcheck // the caller's own
		}
	}
}

// freezing returns the freezing that works for a cgroup.
func (t *Tree) freezing(name string) (freezing, error) {
	if !isEngines(name) {
		return freezing{}, fmt.Errorf("cgroup %s: %w: it is not an engine's", name, ErrNoFreezing)
	}
	own, err := readPaths(filepath.Join(t.proc, "self"))
	if err != nil {
		return freezing{}, fmt.Errorf("own cgroup: %w", err)
	}
	for _, at := range t.freezings(name) {
		if _, err := t.files.Read(filepath.Join(at.folder, at.file)); err != nil {
			continue // the file does not exist, or the kernel is too old
		}
		if below(own.Of(at.hierarchy.controller()), name) {
			return freezing{}, fmt.Errorf("cgroup %s: %w: this process is inside", name, ErrNoFreezing)
		}
		if !t.guarded(at.folder, at.file) {
			return freezing{}, fmt.Errorf("cgroup %s: %w: others may write to it", name, ErrNoFreezing)
		}
		return at, nil
	}
	return freezing{}, fmt.Errorf("cgroup %s: %w: there is no %s for it", name, ErrNoFreezing, freezer)
}

// reaches refuses a freezing whose cgroup holds none of the processes of the cgroup name.
func (t *Tree) reaches(at freezing, name string) error {
	if at.hierarchy == t.main {
		return nil
	}
	frozen, err := t.members(at.hierarchy, name)
	if err != nil || len(frozen) > 0 {
		return err
	}
	return fmt.Errorf("cgroup %s: %w: none of them is in the hierarchy of %s", name, ErrNoFreezing, at.file)
}

// Thaw lets the processes of the cgroup of this path go on, if they are frozen. A cgroup that is
// gone, or cannot be frozen, is no error.
func (t *Tree) Thaw(name string) error {
	if !isEngines(name) {
		return nil
	}
	var all error
	for _, at := range t.freezings(name) {
		err := t.files.Write(filepath.Join(at.folder, at.file), at.off)
		if errors.Is(err, syscall.EROFS) {
			continue // it was not frozen from here
		}
		if err != nil && !cgroupfs.Absent(err) {
			all = errors.Join(all, fmt.Errorf("thawing cgroup %s: %w", name, err))
		}
	}
	return all
}

// isEngines reports whether a driver gives such a path to the cgroup of an engine.
func isEngines(name string) bool {
	base := path.Base(name)
	id, isUnit := strings.CutPrefix(base, unitPrefix)
	if isUnit {
		id = strings.TrimSuffix(strings.TrimSuffix(id, scopeSuffix), ".service")
	} else {
		id = strings.TrimSuffix(base, adoptedSuffix)
	}
	return CheckID(id) == nil && IsNameOf(id, name)
}

// MakeFreezable makes a cgroup of the same path in the freezer's hierarchy, and moves the members
// that are outside there. It returns them. It does nothing if version 2 freezes the cgroup, or if
// the machine has no freezer.
//
// A process in a freezer cgroup of another program stays there: that program decides when the
// process runs. A batch system may suspend its jobs in this way.
func (t *Tree) MakeFreezable(name string, members []Member) (moved []Member, err error) {
	if t.freezer == nil {
		return nil, nil
	}
	for _, at := range t.freezings(name) {
		if _, err := t.files.Read(filepath.Join(at.folder, at.file)); err == nil && at.hierarchy != t.freezer {
			return nil, nil
		}
	}
	folder, visible := t.freezer.folder(name)
	if !visible {
		return nil, fmt.Errorf("cgroup %s: %w: the mount of %s does not show it", name, ErrNoFreezing, freezer)
	}
	if err := t.makeWay(t.freezer, name); err != nil {
		return nil, err
	}
	for _, m := range members {
		cgroups, err := t.cgroupsOf(m.PID)
		now := cgroups.Of(freezer)
		if err != nil || below(now, name) || !below(name, now) {
			continue // it has ended, is inside, or is in the freezer cgroup of another program
		}
		if err := t.move(t.freezer, folder, m); err != nil {
			return moved, fmt.Errorf("moving process %d to cgroup %s: %w", m.PID, name, err)
		}
		moved = append(moved, m)
	}
	return moved, nil
}

// makeWay makes a cgroup and all cgroups above it.
func (t *Tree) makeWay(h *hierarchy, name string) error {
	if _, visible := h.folder(name); !visible || name == h.Root {
		return nil
	}
	if err := t.makeWay(h, path.Dir(name)); err != nil {
		return err
	}
	folder, _ := h.folder(name)
	return ensure(t.files, folder)
}

// RemoveFreezable removes the cgroup of MakeFreezable. ErrBusy: it has processes.
func (t *Tree) RemoveFreezable(name string) error {
	if t.freezer == nil || !isEngines(name) {
		return nil
	}
	folder, visible := t.freezer.folder(name)
	if !visible {
		return nil
	}
	return t.remove(folder)
}
