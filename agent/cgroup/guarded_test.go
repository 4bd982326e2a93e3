package cgroup

import (
	"os"
	"path/filepath"
	"testing"
)

// A cgroup is guarded as it was made, and not any more once another user may write to it.
func TestACgroupThatOthersMayWriteToIsNotGuarded(t *testing.T) {
	d := onThisMachine(t)
	if err := d.Prepare(); err != nil {
		t.Fatal(err)
	}
	for what, change := range map[string]func(folder string) error{
		"a folder of another user's": func(folder string) error { return os.Chown(folder, 4712, 0) },
		"a list of another user's":   func(folder string) error { return os.Chown(filepath.Join(folder, "cgroup.procs"), 4712, 0) },
		"a list for everybody":       func(folder string) error { return os.Chmod(filepath.Join(folder, "cgroup.procs"), 0o666) },
		"one that is gone":           os.Remove,
	} {
		t.Run(what, func(t *testing.T) {
			name, err := d.create("a", Limits{})
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := d.removeAll("a"); err != nil {
					t.Error(err)
				}
			}()
			if !d.Guarded(name) {
				t.Fatal("as it was made it is not guarded")
			}
			folder, _ := d.tree.main.folder(name)
			if err := change(folder); err != nil {
				t.Fatal(err)
			}
			if d.Guarded(name) {
				t.Error("it is guarded")
			}
		})
	}
}
