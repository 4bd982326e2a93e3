package cgroup

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// entered is an engine in a cgroup of version 2.
func entered(t *testing.T) (*unified, *Direct, string) {
	t.Helper()
	k, d := delegated(t)
	path, err := d.Enter(t.Context(), "e1", Limits{}, 100)
	if err != nil {
		t.Fatal(err)
	}
	return k, d, path
}

func TestACgroupOfVersionTwoIsFrozenAndThawed(t *testing.T) {
	k, d, path := entered(t)
	if all, err := d.Freeze(t.Context(), path); !all || err != nil || k.cgroups[path].files["cgroup.freeze"] != "1" {
		t.Error(all, err)
	}
	if err := d.Thaw(path); err != nil || k.cgroups[path].files["cgroup.freeze"] != "0" {
		t.Error(err)
	}
	if err := d.Remove(t.Context(), "e2"); err != nil {
		t.Error(err)
	}
	if err := d.Thaw("/bursar/bursar-engines/e2"); err != nil {
		t.Error("one that is gone:", err)
	}
}

func TestAFreezeThatCannotBeIsRefused(t *testing.T) {
	for what, change := range map[string]func(k *unified, name *string){
		"an old kernel":           func(k *unified, _ *string) { k.old = true },
		"a cgroup of another one": func(k *unified, name *string) { k.foreign = *name },
		"a cgroup that is gone":   func(_ *unified, name *string) { *name += "2" },
		"none of an engine":       func(_ *unified, name *string) { *name = "/elsewhere" },
		"that of the agent":       func(_ *unified, name *string) { *name = "/bursar/agent" },
	} {
		t.Run(what, func(t *testing.T) {
			k, d, path := entered(t)
			change(k, &path)
			if all, err := d.Freeze(t.Context(), path); all || !errors.Is(err, ErrNoFreezing) {
				t.Error(all, err)
			}
			for name, n := range k.cgroups {
				if n.files["cgroup.freeze"] == "1" {
					t.Errorf("%s is frozen", name)
				}
			}
		})
	}
}

// A process that waits for a disk does not stop.
func TestTheWaitForAFrozenCgroupIsBounded(t *testing.T) {
	k, d, path := entered(t)
	k.hangs = true
	if all, err := d.Freeze(t.Context(), path); all || err != nil {
		t.Errorf("%t, %v: want that not all have stopped", all, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if all, err := d.Freeze(ctx, path); all || !errors.Is(err, context.Canceled) {
		t.Error(all, err)
	}
}

// The kernel of this machine: a cgroup of version 2 whose processes fork and exit.
func TestTheKernelFreezesACgroupOfVersionTwo(t *testing.T) {
	const mount = "/sys/fs/cgroup/unified"
	point := mountedAt
	if _, err := os.Stat(filepath.Join(mount, "cgroup.procs")); err == nil {
		point = mount // next to version 1
	}
	proc := t.TempDir()
	self := filepath.Join(proc, "self")
	if err := os.MkdirAll(self, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{"cgroup": "0::/\n", "mountinfo": "30 23 0:26 / " + point + " rw - cgroup2 none rw\n"} {
		if err := os.WriteFile(filepath.Join(self, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	tree, err := OpenTree(TreeOptions{Proc: proc})
	if err != nil {
		t.Fatal(err)
	}
	d := &Direct{tree: tree, base: "/bursar-test-freeze/" + engines, prepared: true, missing: []string{memory, cpu}}
	folder, _ := tree.main.folder(d.base)
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		var err error
		if eventually(func() bool { err = tree.remove(filepath.Dir(folder)); return !errors.Is(err, ErrBusy) }); err != nil {
			t.Error(err)
		}
	})
	var path string
	c := startComet(t, func(keeper int32) {
		if path, err = d.create("e1", Limits{}); err == nil {
			_, err = d.moveOutsiders(path, []Member{{PID: keeper}}, nil)
		}
		if err != nil {
			t.Fatal(err)
		}
		endsAll(t, d, path)
	})
	if all, err := d.Freeze(t.Context(), path); !all || err != nil {
		t.Fatal(all, err)
	}
	pids, err := tree.members(tree.main, path)
	if err != nil || len(pids) < 4 {
		t.Fatalf("%d processes, %v: want the keeper, the root and two chains", len(pids), err)
	}
	for _, pid := range pids {
		if pid != c.pid() {
			signalled(t, pid)
		}
	}
	if err := d.Thaw(path); err != nil {
		t.Error(err)
	}
	if got := c.last(); got != "ended signal: killed" {
		t.Errorf("the keeper says %q", got)
	}
	if !eventually(func() bool { facts, err := d.Facts(t.Context(), "e1"); return err == nil && facts.Empty }) {
		t.Error("a process has escaped")
	}
}
