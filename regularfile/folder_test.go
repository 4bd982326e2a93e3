package regularfile_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/bursar/bursar/regularfile"
)

func TestAFolderIsRefusedWhereSomethingElseIs(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		dir: "", filepath.Join(dir, "new", "newer"): "", "/": "",
		file: file + " is no directory", filepath.Join(file, "new", "newer"): file + " is no directory",
	} {
		if err := regularfile.Folder(path); err == nil && want != "" || err != nil && err.Error() != want {
			t.Errorf("%s: %v, want %q", path, err, want)
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("%v, %v: want nothing made", entries, err)
	}
}

func TestAFolderThatCannotBeMadeIsToldFromOneThatCannotBeMadeNow(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/proc/nowhere/folder", filepath.Join(file, "folder"), filepath.Join(t.TempDir(), strings.Repeat("x", 300))} {
		if err := os.MkdirAll(path, 0o700); !regularfile.CannotBeMade(err) {
			t.Errorf("%s: %v: want it to be for good", path, err)
		}
	}
	for _, err := range []error{nil, syscall.ENOSPC, syscall.EDQUOT, syscall.EIO, syscall.EMFILE, syscall.ENOMEM} {
		if regularfile.CannotBeMade(err) {
			t.Errorf("%v: want it to be for now", err)
		}
	}
}
