package cgroupfs

import (
	"bytes"
	"fmt"
	"path"
	"path/filepath"
	"strings"
)

// Paths are a process's cgroups by controller. The key Unified has the cgroup of version 2.
type Paths map[string]string

// ParsePaths parses /proc/PID/cgroup (cgroups(7)): one line "number:controllers:path" for each
// hierarchy.
func ParsePaths(data []byte) (Paths, error) {
	paths := Paths{}
	for line := range bytes.Lines(data) {
		line = bytes.TrimRight(line, "\n")
		if len(line) == 0 {
			continue
		}
		number, rest, _ := strings.Cut(string(line), ":")
		controllers, name, found := strings.Cut(rest, ":")
		if !found || !path.IsAbs(name) {
			return nil, fmt.Errorf("%w cgroup line %q", ErrMalformed, line)
		}
		// The kernel adds this suffix if the cgroup was removed while the process, a zombie, was
		// still in it.
		name = strings.TrimSuffix(name, " (deleted)")
		if number == "0" && controllers == "" {
			paths[Unified] = name
			continue
		}
		for controller := range strings.SplitSeq(controllers, ",") {
			paths[controller] = name
		}
	}
	return paths, nil
}

// Of returns the cgroup in the hierarchy of a controller; "/" if the process has none there.
func (p Paths) Of(controller string) string {
	if name, is := p[controller]; is {
		return name
	}
	return "/"
}

// Place is the location of a cgroup in the file system.
type Place struct {
	// Point is the directory of the mount. Root is the cgroup mounted there. Name is the path of
	// this cgroup below Root ("/" for Root itself).
	Point, Root, Name string
	// V1 is set for a version 1 hierarchy.
	V1 bool
}

// Directory returns the directory with the cgroup's files.
func (p Place) Directory() string { return filepath.Join(p.Point, p.Name) }

// Cgroup returns the cgroup's path in the hierarchy.
func (p Place) Cgroup() string { return path.Join(p.Root, p.Name) }

// Ancestry returns the place and all its ancestors that the mount shows.
func (p Place) Ancestry() []Place {
	levels := []Place{p}
	for p.Name != "/" {
		p.Name = path.Dir(p.Name)
		levels = append(levels, p)
	}
	return levels
}

// Within returns the part of name below root. The kernel shows a root outside of this process's
// cgroup namespace as "/.."; cgroups below such a root cannot be named from here.
func Within(root, name string) (string, bool) {
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
