package cgroup

import (
	"cmp"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// unified plays the unified hierarchy (version 2) as far as its rules concern this package: which
// files there are depends on the controllers that were handed down; who hands controllers down has
// no processes, but for the root; what has processes or children cannot be removed.
type unified struct {
	cgroups map[string]*node
	// swap: the kernel accounts for it.
	swap bool
	// dead is a process that has ended and whose parent has not waited for it.
	dead int
	// old is a kernel that cannot freeze (before 5.2), and hangs one whose processes do not stop.
	old, hangs bool
	// foreign is a cgroup that another user may write to.
	foreign string
	// any: a cgroup has each file that a test has written, also if it is another cgroup's.
	any bool
}

type node struct {
	procs   []int
	control []string
	files   map[string]string
}

const mountedAt = "/sys/fs/cgroup"

func newUnified(controllers ...string) *unified {
	k := &unified{cgroups: map[string]*node{}, swap: true}
	k.cgroups["/"] = &node{files: map[string]string{"available": strings.Join(controllers, " ")}}
	return k
}

// process is a fixture of the process table: this process is in a cgroup, and the hierarchy is
// mounted with root at its top.
func (k *unified) process(t *testing.T, own, root string) TreeOptions {
	t.Helper()
	proc := t.TempDir()
	self := filepath.Join(proc, "77")
	for name, content := range map[string]string{
		"cgroup":    "0::" + own + "\n",
		"mountinfo": "30 23 0:26 " + root + " " + mountedAt + " rw,nosuid - cgroup2 none rw,nsdelegate\n",
	} {
		if err := os.MkdirAll(self, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(self, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("77", filepath.Join(proc, "self")); err != nil {
		t.Fatal(err)
	}
	return TreeOptions{Proc: proc, Files: k}
}

func (k *unified) make(t *testing.T, name string, procs ...int) {
	t.Helper()
	if err := k.Mkdir(mountedAt + name); err != nil {
		t.Fatal(err)
	}
	k.cgroups[name].procs = procs
}

func cut(name string) string { return path.Clean("/" + strings.TrimPrefix(name, mountedAt)) }

func fail(op, name string, err error) error { return &fs.PathError{Op: op, Path: name, Err: err} }

func (k *unified) available(name string) []string {
	if name == "/" {
		return strings.Fields(k.cgroups["/"].files["available"])
	}
	return k.cgroups[path.Dir(name)].control
}

func (k *unified) below(name string) []string {
	var children []string
	for other := range maps.Keys(k.cgroups) {
		if other != "/" && path.Dir(other) == name {
			children = append(children, other)
		}
	}
	return children
}

func (k *unified) populated(name string) bool {
	return len(k.cgroups[name].procs) > 0 || slices.ContainsFunc(k.below(name), k.populated)
}

// has reports whether a cgroup has a file.
func (k *unified) has(name, file string) bool {
	if _, set := k.cgroups[name].files[file]; set && k.any {
		return true
	}
	controller, _, _ := strings.Cut(file, ".")
	switch controller {
	case "memory":
		return name != "/" && slices.Contains(k.available(name), memory) && (k.swap || file != "memory.swap.max")
	case "cpu":
		return name != "/" && slices.Contains(k.available(name), cpu) || file == "cpu.stat"
	case "pids", "cpuset":
		return name != "/" && slices.Contains(k.available(name), controller)
	default:
		return controller == "cgroup" && (name != "/" || file != "cgroup.events" && file != "cgroup.freeze") && (!k.old || file != "cgroup.freeze")
	}
}

func (k *unified) Read(name string) ([]byte, error) {
	at, file := cut(path.Dir(name)), path.Base(name)
	n := k.cgroups[at]
	if n == nil || !k.has(at, file) {
		return nil, fail("open", name, syscall.ENOENT)
	}
	var text string
	switch file {
	case "cgroup.controllers":
		text = strings.Join(k.available(at), " ")
	case "cgroup.subtree_control":
		text = strings.Join(n.control, " ")
	case "cgroup.events":
		text = "populated 0\nfrozen 0"
		if k.populated(at) {
			text = "populated 1\nfrozen 0"
		}
		if n.files["cgroup.freeze"] == "1" && !k.hangs {
			text = strings.Replace(text, "frozen 0", "frozen 1", 1)
		}
	case "cgroup.freeze":
		text = cmp.Or(n.files[file], "0")
	case "cgroup.procs":
		for _, pid := range n.procs {
			text += strconv.Itoa(pid) + "\n"
		}
	default:
		var set bool
		if text, set = n.files[file]; !set {
			return nil, fail("open", name, syscall.ENOENT)
		}
	}
	return []byte(text + "\n"), nil
}

func (k *unified) Write(name, content string) error {
	at, file := cut(path.Dir(name)), path.Base(name)
	n := k.cgroups[at]
	if n == nil || !k.has(at, file) {
		return fail("open", name, syscall.ENOENT)
	}
	switch file {
	case "cgroup.subtree_control":
		controller := strings.TrimPrefix(content, "+")
		if !slices.Contains(k.available(at), controller) {
			return fail("write", name, syscall.ENOENT)
		}
		if at != "/" && len(n.procs) > 0 {
			return fail("write", name, syscall.EBUSY)
		}
		n.control = append(n.control, controller)
		for _, child := range k.below(at) {
			k.cgroups[child].fill(controller)
		}
	case "cgroup.procs":
		pid, err := strconv.Atoi(content)
		if err != nil {
			return fail("write", name, syscall.EINVAL)
		}
		if at != "/" && len(n.control) > 0 {
			return fail("write", name, syscall.EBUSY)
		}
		return k.move(name, pid, n)
	default:
		n.files[file] = content
	}
	return nil
}

func (k *unified) move(name string, pid int, to *node) error {
	if pid == k.dead {
		return nil
	}
	for _, from := range k.cgroups {
		if i := slices.Index(from.procs, pid); i >= 0 {
			from.procs = slices.Delete(from.procs, i, i+1)
			to.procs = append(to.procs, pid)
			return nil
		}
	}
	return fail("write", name, syscall.ESRCH)
}

func (n *node) fill(controller string) {
	switch controller {
	case memory:
		n.files["memory.max"], n.files["memory.swap.max"], n.files["memory.current"] = "max", "max", "0"
		n.files["memory.events"] = "low 0\nhigh 0\nmax 0\noom 0\noom_kill 0\noom_group_kill 0"
		n.files["memory.stat"] = "anon 0\ninactive_anon 0\nactive_anon 0\ninactive_file 0\nactive_file 0\nunevictable 0\nslab_reclaimable 0"
	case cpu:
		n.files["cpu.max"], n.files["cpu.weight"] = "max 100000", "100"
	}
}

func (k *unified) Mkdir(name string) error {
	at := cut(name)
	switch {
	case k.cgroups[at] != nil:
		return fail("mkdir", name, syscall.EEXIST)
	case k.cgroups[path.Dir(at)] == nil:
		return fail("mkdir", name, syscall.ENOENT)
	}
	n := &node{files: map[string]string{}}
	k.cgroups[at] = n
	for _, controller := range k.available(at) {
		n.fill(controller)
	}
	return nil
}

func (k *unified) Rmdir(name string) error {
	at := cut(name)
	switch {
	case k.cgroups[at] == nil:
		return fail("rmdir", name, syscall.ENOENT)
	case len(k.cgroups[at].procs) > 0 || len(k.below(at)) > 0:
		return fail("rmdir", name, syscall.EBUSY)
	}
	delete(k.cgroups, at)
	return nil
}

func (k *unified) Owner(name string) (uid, mode uint32, err error) {
	for _, at := range []string{cut(name), cut(path.Dir(name))} {
		if k.cgroups[at] == nil {
			continue
		}
		if at == k.foreign {
			return 4712, 0o644, nil
		}
		return 0, 0o644, nil
	}
	return 0, 0, fail("stat", name, syscall.ENOENT)
}

func (k *unified) Folders(name string) ([]string, error) {
	if k.cgroups[cut(name)] == nil {
		return nil, fail("open", name, syscall.ENOENT)
	}
	var names []string
	for _, child := range k.below(cut(name)) {
		names = append(names, path.Base(child))
	}
	slices.Sort(names)
	return names, nil
}

// limits are the files of a cgroup that are limits, in one line.
func (k *unified) limits(name string) string {
	f := k.cgroups[name].files
	return fmt.Sprintf("memory %s swap %s cpu %s weight %s", f["memory.max"], f["memory.swap.max"], f["cpu.max"], f["cpu.weight"])
}
