package cgroupfs

import (
	"errors"
	"io/fs"
	"testing"
)

const (
	wide     = "26 25 0:23 / /sys/fs/cgroup rw - cgroup2 none rw\n"
	narrow   = "27 25 0:23 /kubepods /run/part rw - cgroup2 none rw\n"
	again    = "28 25 0:23 / /mnt/again rw - cgroup2 none rw\n"
	over     = "29 26 0:40 / /sys/fs/cgroup rw - tmpfs none rw\n"
	nowhere  = "30 25 0:23 /.. /host/cgroup rw - cgroup2 none rw\n"
	memoryV1 = "31 25 0:24 / /sys/fs/cgroup/memory rw - cgroup none rw,memory\n"
)

// Who measures and who moves processes has to look at the same mount: the one that shows most
// limits, which nothing hides.
func TestTheMountThatShowsMostIsRead(t *testing.T) {
	for name, test := range map[string]struct {
		mounts, gone, widest, found string
	}{
		"alone":                           {mounts: wide, widest: "/sys/fs/cgroup", found: "/sys/fs/cgroup"},
		"a part of it behind it":          {mounts: wide + narrow, widest: "/sys/fs/cgroup", found: "/sys/fs/cgroup"},
		"a part of it before it":          {mounts: narrow + wide, widest: "/sys/fs/cgroup", found: "/sys/fs/cgroup"},
		"a part of it alone":              {mounts: narrow, widest: "/run/part", found: "/run/part"},
		"the same twice":                  {mounts: wide + again, widest: "/mnt/again", found: "/mnt/again"},
		"hidden by a mount over it":       {mounts: wide + narrow + over, widest: "/run/part", found: "/run/part"},
		"hidden by one further up":        {mounts: wide + narrow, gone: "/sys/fs/cgroup", widest: "/run/part", found: "/run/part"},
		"begins outside of the namespace": {mounts: nowhere, widest: "/host/cgroup"},
		"a part, and one from outside":    {mounts: narrow + nowhere, widest: "/run/part", found: "/run/part"},
		"another version's":               {mounts: memoryV1},
		"none":                            {},
	} {
		t.Run(name, func(t *testing.T) {
			mounts, err := ParseMounts([]byte(test.mounts))
			if err != nil {
				t.Fatal(err)
			}
			h := Hierarchies{Top: "/", Mounts: mounts, Stat: func(directory string) error {
				if within, _ := Within(test.gone, directory); test.gone != "" && within != "" {
					return fs.ErrNotExist
				}
				return nil
			}}
			if at, found := h.Widest(Unified); at.Point != test.widest || found != (test.widest != "") {
				t.Errorf("widest: %+v, %v; want %q", at, found, test.widest)
			}
			at, err := h.Find(Unified, "/kubepods/pod")
			if at.Point != test.found || (err == nil) != (test.found != "") || err != nil && !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("found: %+v, %v; want %q", at, err, test.found)
			}
		})
	}
}

func TestMemoryIsAccountedInVersion1IfItHasTheController(t *testing.T) {
	for mounts, want := range map[string]string{wide: Unified, memoryV1: Memory, memoryV1 + wide: Memory, "": Unified} {
		list, err := ParseMounts([]byte(mounts))
		if err != nil {
			t.Fatal(err)
		}
		if got := (Hierarchies{Mounts: list}).MemoryController(); got != want {
			t.Errorf("%q: %q, want %q", mounts, got, want)
		}
	}
}

func TestProcessWithoutACgroupInAHierarchyIsAtItsTop(t *testing.T) {
	paths := Paths{"memory": "/a"}
	if paths.Of("memory") != "/a" || paths.Of("cpu") != "/" {
		t.Error(paths)
	}
}
