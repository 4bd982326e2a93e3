package cgroup

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

func TestACgroupCanBeLookedIntoWhateverTheUmask(t *testing.T) {
	path := filepath.Join(t.TempDir(), "engine")
	before := syscall.Umask(0o077)
	err := kernel{}.Mkdir(path)
	syscall.Umask(before)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("%v, %v: want 0755", info.Mode(), err)
	}
}
