package regularfile_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bursar/bursar/internal/regularfile"
)

const stranger = 12345

// made is a folder or file with an owner and a mode.
func made(t *testing.T, path string, uid int, mode fs.FileMode) {
	t.Helper()
	var err error
	if mode.IsDir() {
		err = os.Mkdir(path, 0o700)
	} else {
		err = os.WriteFile(path, nil, 0o600)
	}
	if err := errors.Join(err, os.Chown(path, uid, uid), os.Chmod(path, mode&^fs.ModeDir)); err != nil {
		t.Fatal(err)
	}
}

func TestFoldersThatOthersCanChangeOrReplaceAreRefused(t *testing.T) {
	for name, test := range map[string]struct {
		make func(t *testing.T, dir string)
		uid  uint32
		want string // the path, relative to the test's folder, and the fault; empty: none
	}{
		"its own":          {make: func(t *testing.T, dir string) { made(t, dir+"/state", 0, fs.ModeDir|0o755) }},
		"not there":        {make: func(*testing.T, string) {}},
		"root's group's":   {make: func(t *testing.T, dir string) { made(t, dir+"/state", 0, fs.ModeDir|0o770) }},
		"another's":        {func(t *testing.T, dir string) { made(t, dir+"/state", stranger, fs.ModeDir|0o700) }, 0, "/state is owned by uid 12345 and has mode 0700: want a folder of uid 0"},
		"root's, for Bob":  {func(t *testing.T, dir string) { made(t, dir+"/state", 0, fs.ModeDir|0o777) }, stranger, "/state is owned by uid 0 and has mode 0777: want a folder of uid 12345"},
		"Bob's, for Bob":   {func(t *testing.T, dir string) { made(t, dir+"/state", stranger, fs.ModeDir|0o775) }, stranger, ""},
		"all's":            {func(t *testing.T, dir string) { made(t, dir+"/state", 0, fs.ModeDir|0o777) }, 0, "/state is owned by uid 0 and has mode 0777: want that nobody else may write to it"},
		"all's, of Bob":    {func(t *testing.T, dir string) { made(t, dir+"/state", stranger, fs.ModeDir|0o707) }, stranger, "/state is owned by uid 12345 and has mode 0707: want that nobody else may write to it"},
		"all's and sticky": {func(t *testing.T, dir string) { made(t, dir+"/state", 0, fs.ModeDir|fs.ModeSticky|0o777) }, 0, "/state is owned by uid 0 and has mode 0777: want that nobody else may write to it"},
		"a group's": {func(t *testing.T, dir string) {
			made(t, dir+"/state", 0, fs.ModeDir|0o770)
			if err := os.Chown(dir+"/state", 0, stranger); err != nil {
				t.Fatal(err)
			}
		}, 0, "/state is owned by uid 0 and has mode 0770: want that nobody else may write to it"},
		"below all's": {func(t *testing.T, dir string) {
			made(t, dir+"/all", 0, fs.ModeDir|0o777)
			made(t, dir+"/all/state", 0, fs.ModeDir|0o700)
			link(t, "all/state", dir+"/state")
		}, 0, "/all is owned by uid 0 and has mode 0777: want that nobody else may write to a folder on the way"},
		"to be made below another's": {func(t *testing.T, dir string) {
			made(t, dir+"/bob", stranger, fs.ModeDir|0o755)
			link(t, dir+"/bob/state/new", dir+"/state")
		}, 0, "/bob is owned by uid 12345 and has mode 0755: want that everything on the way to a folder of root's is root's"},
		"below a sticky one": {func(t *testing.T, dir string) {
			made(t, dir+"/tmp", 0, fs.ModeDir|fs.ModeSticky|0o777)
			made(t, dir+"/tmp/state", 0, fs.ModeDir|0o700)
			link(t, "../"+filepath.Base(dir)+"/tmp/state", dir+"/state")
		}, 0, ""},
		"another's link": {func(t *testing.T, dir string) {
			made(t, dir+"/real", 0, fs.ModeDir|0o700)
			link(t, "real", dir+"/state")
			if err := os.Lchown(dir+"/state", stranger, stranger); err != nil {
				t.Fatal(err)
			}
		}, 0, "/state is owned by uid 12345 and has mode 0777: want that everything on the way"},
		"the system's, with a group": {func(t *testing.T, dir string) {
			made(t, dir+"/system", 0, fs.ModeDir|0o775)
			made(t, dir+"/system/state", 0, fs.ModeDir|0o755)
			if err := os.Chown(dir+"/system", 0, stranger); err != nil {
				t.Fatal(err)
			}
			link(t, "system/state", dir+"/state")
		}, 0, "/system is owned by uid 0 and has mode 0775: want that nobody else may write to a folder on the way"},
		"a link to itself": {func(t *testing.T, dir string) { link(t, "state", dir+"/state") }, 0, ": too many levels of symbolic links"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			test.make(t, dir)
			err := regularfile.Guarded(filepath.Join(dir, "state"), test.uid)
			if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(strings.ReplaceAll(err.Error(), dir, ""), test.want)) {
				t.Errorf("%v, want %q", err, test.want)
			}
		})
	}
}

func link(t *testing.T, target, path string) {
	t.Helper()
	if err := os.Symlink(target, path); err != nil {
		t.Fatal(err)
	}
}

func TestFilesThatOthersCanChangeAreRefused(t *testing.T) {
	for name, test := range map[string]struct {
		make func(t *testing.T, file string)
		want string
	}{
		"its own":        {func(t *testing.T, file string) { made(t, file, 0, 0o644) }, ""},
		"not there":      {func(*testing.T, string) {}, ""},
		"another's":      {func(t *testing.T, file string) { made(t, file, stranger, 0o600) }, " is owned by uid 12345 and has mode 0600: want a file of uid 0"},
		"all's":          {func(t *testing.T, file string) { made(t, file, 0, 0o602) }, " is owned by uid 0 and has mode 0602: want that nobody else may write to it"},
		"its own folder": {func(t *testing.T, file string) { made(t, file, 0, fs.ModeDir|0o700) }, ""},
		"a dangling one": {func(t *testing.T, file string) { link(t, "nowhere", file) }, ""},
		"a link to another's": {func(t *testing.T, file string) {
			made(t, file+"x", stranger, 0o600)
			link(t, file+"x", file)
		}, " is owned by uid 12345 and has mode 0600: want a file of uid 0"},
		"another's link": {func(t *testing.T, file string) {
			made(t, file+"x", 0, 0o600)
			link(t, file+"x", file)
			if err := os.Lchown(file, stranger, stranger); err != nil {
				t.Fatal(err)
			}
		}, " is owned by uid 12345 and has mode 0777: want a file of uid 0"},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "file")
			test.make(t, file)
			err := regularfile.GuardedFile(file, 0)
			if test.want == "" && err != nil || test.want != "" && (err == nil || err.Error() != file+test.want) {
				t.Errorf("%v, want %q", err, test.want)
			}
		})
	}
}

// Some distributions let a system group write to /var/log. Folders below it must be guarded all the
// same, and it must not be writable for everybody.
func TestFolderBelowOneOfTheSystem(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Fatal("this test plays several users: it needs root")
	}
	for name, test := range map[string]struct {
		system, below fs.FileMode
		owner         int
		want          bool
	}{
		"a group's":      {0o775, 0o755, 0, true},
		"all's":          {0o777, 0o755, 0, false},
		"another's":      {0o755, 0o755, stranger, false},
		"all's below it": {0o775, 0o777, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			system := filepath.Join(t.TempDir(), "log")
			made(t, system, 0, fs.ModeDir|test.system)
			made(t, system+"/bursar", 0, fs.ModeDir|test.below)
			made(t, system+"/bursar/engines", 0, fs.ModeDir|0o755)
			if err := os.Chown(system, test.owner, stranger); err != nil {
				t.Fatal(err)
			}
			if err := regularfile.GuardedIn(system, system+"/bursar/engines", 0); (err == nil) != test.want {
				t.Error(err)
			}
			own := test.system != 0o777 && test.owner == 0
			if err := regularfile.GuardedIn(system, system, 0); (err == nil) != own {
				t.Errorf("the system's own: %v", err)
			}
		})
	}
}
