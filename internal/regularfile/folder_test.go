package regularfile_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/bursar/bursar/internal/regularfile"
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

func modeOf(t *testing.T, path string) fs.FileMode {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Mode().Perm()
}

func TestFoldersThatAreMadeHaveTheirModeWhateverTheUmask(t *testing.T) {
	for _, umask := range []int{0o077, 0o022, 0} {
		dir := t.TempDir()
		there := filepath.Join(dir, "there")
		if err := os.Mkdir(there, 0o700); err != nil {
			t.Fatal(err)
		}
		before := syscall.Umask(umask)
		err := regularfile.MakeFolders(filepath.Join(there, "new", "newer"), 0o755)
		again := regularfile.MakeFolders(there, 0o755)
		syscall.Umask(before)
		if err != nil || again != nil {
			t.Fatalf("umask %03o: %v, %v", umask, err, again)
		}
		for path, want := range map[string]fs.FileMode{"there": 0o700, "there/new": 0o755, "there/new/newer": 0o755} {
			if got := modeOf(t, filepath.Join(dir, path)); got != want {
				t.Errorf("umask %03o: %s has mode %04o, want %04o", umask, path, got, want)
			}
		}
	}
}

func TestFoldersAreNotMadeInAFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{file, filepath.Join(file, "new")} {
		if err := regularfile.MakeFolders(path, 0o755); !errors.Is(err, syscall.ENOTDIR) || !strings.Contains(err.Error(), file) {
			t.Errorf("%s: %v", path, err)
		}
	}
	link := filepath.Join(filepath.Dir(file), "link")
	if err := os.Symlink(filepath.Dir(file), link); err != nil {
		t.Fatal(err)
	}
	if err := regularfile.MakeFolders(filepath.Join(link, "new"), 0o700); err != nil || modeOf(t, filepath.Join(filepath.Dir(file), "new")) != 0o700 {
		t.Errorf("through a link to a folder: %v", err)
	}
}
