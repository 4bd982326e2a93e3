package cgroupfs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// Unified is the name for the hierarchy of version 2 in place of a controller's name.
const Unified = ""

// Memory is the controller that accounts for memory.
const Memory = "memory"

// Mount is one mount of a hierarchy.
type Mount struct {
	// Root is the cgroup that is mounted at Point.
	Root, Point string
	// Controllers of a version 1 hierarchy, with its other options; nil for version 2.
	Controllers []string
}

// Carries reports whether the mount is of the controller's version 1 hierarchy, or, for Unified, of
// the unified hierarchy.
func (m Mount) Carries(controller string) bool {
	if controller == Unified {
		return m.Controllers == nil
	}
	return slices.Contains(m.Controllers, controller)
}

// ParseMounts finds the mounts of cgroup hierarchies in /proc/PID/mountinfo. It omits a mount that
// another mount on the same point hides. ErrMalformed: a line cannot be parsed.
func ParseMounts(data []byte) ([]Mount, error) {
	var mounts []Mount
	for info, err := range MountInfos(data) {
		if err != nil {
			return nil, err
		}
		mounts = slices.DeleteFunc(mounts, func(m Mount) bool { return m.Point == info.Point })
		mount := Mount{Root: info.Root, Point: info.Point}
		switch info.Type {
		case "cgroup2":
		case "cgroup":
			mount.Controllers = strings.Split(info.SuperOptions, ",")
		default:
			continue
		}
		if !path.IsAbs(mount.Root) || !path.IsAbs(mount.Point) {
			return nil, fmt.Errorf("%w mount of cgroups, root %q, point %q", ErrMalformed, mount.Root, mount.Point)
		}
		mounts = append(mounts, mount)
	}
	return mounts, nil
}

// Hierarchies are the cgroup mounts of the machine.
type Hierarchies struct {
	// Top is the folder that contains the mount points.
	Top    string
	Mounts []Mount
	// Stat fails if there is no such folder (see Absent). The default reads this machine.
	Stat func(directory string) error
}

// Has reports whether a version 1 hierarchy with that controller is mounted.
func (h Hierarchies) Has(controller string) bool {
	return slices.ContainsFunc(h.Mounts, func(m Mount) bool { return slices.Contains(m.Controllers, controller) })
}

// MemoryController returns the hierarchy that accounts for memory: Memory if version 1's controller
// is mounted, otherwise Unified.
func (h Hierarchies) MemoryController() string {
	if h.Has(Memory) {
		return Memory
	}
	return Unified
}

// Find returns the place of the named cgroup in the controller's version 1 hierarchy, or in the
// unified one. If several mounts show it, Find takes the one with most of its ancestors, and of
// these the last, which no other mount covers. fs.ErrNotExist: no mount shows it.
func (h Hierarchies) Find(controller, name string) (Place, error) {
	best, found := Place{}, false
	for _, mount := range h.Mounts {
		if !mount.Carries(controller) {
			continue
		}
		below, ok := Within(mount.Root, name)
		if !ok {
			continue
		}
		candidate := h.placeIn(mount)
		candidate.Name = below
		switch err := h.stat(candidate.Directory()); {
		case Absent(err):
			continue
		case err != nil:
			return Place{}, fmt.Errorf("cgroup %s: %w", name, err)
		}
		if !found || len(mount.Root) <= len(best.Root) {
			best, found = candidate, true
		}
	}
	if !found {
		return Place{}, fmt.Errorf("cgroup %s: %w", name, fs.ErrNotExist)
	}
	return best, nil
}

// Widest returns the root of the widest mount of the hierarchy; false if there is no mount. It
// chooses between mounts as Find does.
func (h Hierarchies) Widest(controller string) (Place, bool) {
	best, found := Place{}, false
	for _, mount := range h.Mounts {
		if !mount.Carries(controller) || found && lessWide(mount.Root, best.Root) || Absent(h.stat(h.placeIn(mount).Directory())) {
			continue
		}
		best, found = h.placeIn(mount), true
	}
	return best, found
}

// lessWide reports whether a mount of the first root shows less than a mount of the other root.
// A mount whose root is outside of this process's cgroup namespace has no cgroups that can be
// named.
func lessWide(root, other string) bool {
	if outside := strings.HasPrefix(root, "/.."); outside != strings.HasPrefix(other, "/..") {
		return outside
	}
	return len(root) > len(other)
}

// Own is Find for the cgroup of this process, which exists. In a container without a cgroup
// namespace, its name is from the machine, but the mount shows only the container's part. Then Own
// returns the root of the mount.
func (h Hierarchies) Own(controller, name string) (Place, error) {
	at, err := h.Find(controller, name)
	if !errors.Is(err, fs.ErrNotExist) {
		return at, err
	}
	if widest, found := h.Widest(controller); found {
		return widest, nil
	}
	return Place{}, err
}

func (h Hierarchies) placeIn(mount Mount) Place {
	return Place{Point: filepath.Join(h.Top, mount.Point), Root: mount.Root, Name: "/", V1: mount.Controllers != nil}
}

func (h Hierarchies) stat(directory string) error {
	if h.Stat != nil {
		return h.Stat(directory)
	}
	_, err := os.Stat(directory)
	return err //nolint:wrapcheck // it names the folder
}

// Absent reports whether the error means that a file or process does not exist (any more): no such
// file, a process that ended between open and read (ESRCH), or a cgroup that was removed during the
// read (ENODEV).
func Absent(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) || errors.Is(err, syscall.ENODEV)
}
