package host

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// A cgroup is named by a path in its hierarchy, and read through a mount of that hierarchy. On a machine with version 1 every
// controller (memory, cpu, cpuset, …) may have a hierarchy of its own; with version 2 there is one for all, the unified one; a
// hybrid machine has both. A mount need not show the whole hierarchy: in a container it may begin at the container's cgroup.

// unified stands for the hierarchy of version 2 where a controller's name is wanted.
const unified = ""

// cgroupMount is one place where a hierarchy is mounted.
type cgroupMount struct {
	// root is the cgroup that is seen at point.
	root, point string
	// controllers of a version 1 hierarchy; nil for version 2.
	controllers []string
}

var errMalformed = errors.New("malformed")

// parseMountinfo finds the mounts of cgroup hierarchies in /proc/PID/mountinfo (proc(5)).
func parseMountinfo(data []byte) ([]cgroupMount, error) {
	var mounts []cgroupMount
	for line := range bytes.Lines(data) {
		line = bytes.TrimRight(line, "\n")
		if len(line) == 0 {
			continue
		}
		before, after, found := strings.Cut(string(line), " - ")
		left, right := strings.Split(before, " "), strings.Split(after, " ")
		if !found || len(left) < 6 || len(right) < 2 {
			return nil, fmt.Errorf("%w mountinfo line %q", errMalformed, line)
		}
		mount := cgroupMount{root: unescape(left[3]), point: unescape(left[4])}
		switch right[0] {
		case "cgroup2":
		case "cgroup":
			if len(right) < 3 {
				return nil, fmt.Errorf("%w mountinfo line %q", errMalformed, line)
			}
			mount.controllers = strings.Split(right[2], ",")
		default:
			continue
		}
		if !path.IsAbs(mount.root) || !path.IsAbs(mount.point) {
			return nil, fmt.Errorf("%w mountinfo line %q", errMalformed, line)
		}
		// A mount over another hides it.
		mounts = slices.DeleteFunc(mounts, func(m cgroupMount) bool { return m.point == mount.point })
		mounts = append(mounts, mount)
	}
	return mounts, nil
}

// unescape undoes mountinfo's octal escapes of space, tab, newline and backslash.
func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var out strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if code, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				out.WriteByte(byte(code))
				i += 3
				continue
			}
		}
		out.WriteByte(s[i])
	}
	return out.String()
}

// cgroupPaths are a process's cgroups by controller; the key unified has that of version 2.
type cgroupPaths map[string]string

// parseCgroup parses /proc/PID/cgroup (cgroups(7)): one line "number:controllers:path" for each hierarchy.
func parseCgroup(data []byte) (cgroupPaths, error) {
	paths := cgroupPaths{}
	for line := range bytes.Lines(data) {
		line = bytes.TrimRight(line, "\n")
		if len(line) == 0 {
			continue
		}
		number, rest, _ := strings.Cut(string(line), ":")
		controllers, name, found := strings.Cut(rest, ":")
		if !found || !path.IsAbs(name) {
			return nil, fmt.Errorf("%w cgroup line %q", errMalformed, line)
		}
		// The kernel says so of a cgroup that was removed while the process, a zombie, was still in it.
		name = strings.TrimSuffix(name, " (deleted)")
		if number == "0" && controllers == "" {
			paths[unified] = name
			continue
		}
		for controller := range strings.SplitSeq(controllers, ",") {
			paths[controller] = name
		}
	}
	return paths, nil
}

// place is a cgroup as the file system shows it.
type place struct {
	// point is the directory of the mount, root the cgroup seen there, name the path of this cgroup below it ("/" for itself).
	point, root, name string
	v1                bool
}

// directory has the cgroup's files.
func (p place) directory() string { return filepath.Join(p.point, p.name) }

// cgroup is its path in the hierarchy.
func (p place) cgroup() string { return path.Join(p.root, p.name) }

// ancestry returns the place and all above it that the mount shows.
func (p place) ancestry() []place {
	levels := []place{p}
	for p.name != "/" {
		p.name = path.Dir(p.name)
		levels = append(levels, p)
	}
	return levels
}

// hierarchies are the cgroup mounts of the machine.
type hierarchies struct {
	// top is Options.Root, below which the mount points are.
	top    string
	mounts []cgroupMount
	// ownMeminfo: something is mounted over /proc/meminfo, as lxcfs does to show a container's limit as the machine's memory.
	ownMeminfo bool
}

// has reports whether a version 1 hierarchy with that controller is mounted.
func (h hierarchies) has(controller string) bool {
	return slices.ContainsFunc(h.mounts, func(m cgroupMount) bool { return slices.Contains(m.controllers, controller) })
}

// find returns the place of the named cgroup in the controller's version 1 hierarchy, or in the unified one. Where several
// mounts show it, the one that shows most of its ancestors. fs.ErrNotExist: no mount shows it.
func (h hierarchies) find(controller, name string) (place, error) {
	best, found := place{}, false
	for _, mount := range h.mounts {
		if !mount.carries(controller) {
			continue
		}
		below, ok := within(mount.root, name)
		if !ok {
			continue
		}
		candidate := h.at(mount)
		candidate.name = below
		switch _, err := os.Stat(candidate.directory()); {
		case absent(err):
			continue
		case err != nil:
			return place{}, fmt.Errorf("cgroup %s: %w", name, err)
		}
		if !found || len(mount.root) < len(best.root) {
			best, found = candidate, true
		}
	}
	if !found {
		return place{}, fmt.Errorf("cgroup %s: %w", name, fs.ErrNotExist)
	}
	return best, nil
}

// own is find for the cgroup of this process, which exists. In a container without a cgroup namespace its name is the
// machine's while the mount shows only the container's part: then it is what the mount shows.
func (h hierarchies) own(controller, name string) (place, error) {
	at, err := h.find(controller, name)
	if !errors.Is(err, fs.ErrNotExist) {
		return at, err
	}
	for _, mount := range h.mounts {
		if mount.carries(controller) {
			return h.at(mount), nil
		}
	}
	return place{}, err
}

// nearest is find for the cgroup of the options: it must have a place for memory, unless orAbove; with version 1 other controllers
// may lack it. Then its nearest ancestor that a mount shows counts.
func (h hierarchies) nearest(controller, name string, orAbove bool) (place, bool, error) {
	hierarchy := controller
	if !h.has(controller) {
		hierarchy = unified
	}
	for {
		at, err := h.find(hierarchy, name)
		if err == nil || !errors.Is(err, fs.ErrNotExist) || controller == "memory" && !orAbove {
			return at, err == nil, err
		}
		if name == "/" {
			at, err = h.own(hierarchy, name)
			return at, err == nil && orAbove, nil
		}
		name = path.Dir(name)
	}
}

func (h hierarchies) at(mount cgroupMount) place {
	return place{point: filepath.Join(h.top, mount.point), root: mount.root, name: "/", v1: mount.controllers != nil}
}

func (m cgroupMount) carries(controller string) bool {
	if controller == unified {
		return m.controllers == nil
	}
	return slices.Contains(m.controllers, controller)
}

// within returns the part of name below root. A root outside of this process's cgroup namespace is shown as "/..": what is
// below it cannot be named from here.
func within(root, name string) (string, bool) {
	if strings.HasPrefix(root, "/..") || strings.HasPrefix(name, "/..") {
		return "", false
	}
	name = path.Clean(name)
	switch {
	case root == "/":
		return name, true
	case name == root:
		return "/", true
	case strings.HasPrefix(name, root+"/"):
		return name[len(root):], true
	}
	return "", false
}
