package cgroupfs

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
)

// tree makes cgroups, each with a process that has the number of its place in the list.
func tree(t *testing.T, names ...string) string {
	t.Helper()
	root := t.TempDir()
	for pid, name := range names {
		directory := filepath.Join(root, name)
		if err := os.MkdirAll(directory, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(directory, "cgroup.procs"), []byte(strconv.Itoa(pid)+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestAWalkSaysWhetherItHasSeenAll(t *testing.T) {
	root := tree(t, ".", "a", "a/b", "c")
	for name, test := range map[string]struct {
		left, deepest int
		late          bool
		pids          []int32
		all           bool
	}{
		"all":      {left: 3, deepest: 2, pids: []int32{0, 1, 2, 3}, all: true},
		"too many": {left: 2, deepest: 2, pids: []int32{0, 1, 2}},
		"too deep": {left: 3, deepest: 1, pids: []int32{0, 1, 3}},
		"too late": {left: 3, deepest: 2, late: true, pids: []int32{0}},
	} {
		walk := Walk{Read: os.ReadFile, Children: Children, Left: test.left, Deepest: test.deepest, Late: func() bool { return test.late }}
		pids, all, err := walk.Members(root, nil)
		if err != nil || all != test.all || !slices.Equal(pids, test.pids) {
			t.Errorf("%s: %v, %v, %v; want %v, %v", name, pids, all, err, test.pids, test.all)
		}
	}
}

func TestWhatIsGoneHasNobody(t *testing.T) {
	root := tree(t, ".", "a")
	children := func(directory string) ([]string, error) {
		if directory == root {
			return []string{"gone", "a"}, nil
		}
		return nil, fs.ErrNotExist // between the two looks
	}
	walk := Walk{Read: os.ReadFile, Children: children, Left: 9, Deepest: 9}
	if pids, all, err := walk.Members(root, nil); err != nil || !all || !slices.Equal(pids, []int32{0, 1}) {
		t.Errorf("%v, %v, %v", pids, all, err)
	}
	walk = Walk{Read: os.ReadFile, Children: children, Left: 9, Deepest: 9}
	if _, _, err := walk.Members(filepath.Join(root, "gone"), nil); !Absent(err) {
		t.Errorf("%v", err)
	}
}

func TestALineThatIsNoPidIsRefused(t *testing.T) {
	walk := Walk{Read: func(string) ([]byte, error) { return []byte("12\nx\n"), nil }, Children: Children}
	if _, _, err := walk.Members("/", nil); !errors.Is(err, ErrMalformed) {
		t.Errorf("%v", err)
	}
}

func TestANamespaceIsAnothersIfItsNameIs(t *testing.T) {
	dir := t.TempDir()
	own, other := filepath.Join(dir, "own"), filepath.Join(dir, "other")
	for process, name := range map[string]string{own: "pid:[1]", other: "pid:[2]"} {
		if err := os.MkdirAll(filepath.Join(process, "ns"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(name, filepath.Join(process, "ns", "pid")); err != nil {
			t.Fatal(err)
		}
	}
	if is, err := OtherNamespace(own, other, "pid"); err != nil || !is {
		t.Errorf("%v, %v", is, err)
	}
	if is, err := OtherNamespace(own, own, "pid"); err != nil || is {
		t.Errorf("its own: %v, %v", is, err)
	}
	if is, err := OtherNamespace(own, filepath.Join(dir, "ended"), "pid"); is || !Absent(err) {
		t.Errorf("of a process that has ended: %v, %v", is, err)
	}
	if is, err := OtherNamespace(own, other, "time"); err != nil || is {
		t.Errorf("a kind that the kernel does not have: %v, %v", is, err)
	}
}
