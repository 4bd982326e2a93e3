package regularfile_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bursar/bursar/internal/regularfile"
)

func TestProgramsThatOthersCouldReplaceAreRefused(t *testing.T) {
	for name, test := range map[string]struct {
		make func(t *testing.T, dir string)
		uid  uint32
		want string // without the path of the test's folder; empty: no error
	}{
		"root's":                   {func(t *testing.T, dir string) { made(t, dir+"/run", 0, 0o755) }, 0, ""},
		"root's, for Bob":          {func(t *testing.T, dir string) { made(t, dir+"/run", 0, 0o755) }, stranger, ""},
		"Bob's, for Bob":           {func(t *testing.T, dir string) { made(t, dir+"/run", stranger, 0o700) }, stranger, ""},
		"of root's group":          {func(t *testing.T, dir string) { made(t, dir+"/run", 0, 0o775) }, 0, "/run is owned by uid 0 and has mode 0775: want that neither"},
		"not there":                {func(*testing.T, string) {}, 0, "lstat /run: no such file or directory"},
		"a folder":                 {func(t *testing.T, dir string) { made(t, dir+"/run", 0, fs.ModeDir|0o755) }, 0, "/run has mode drwxr-xr-x: want a file that can be executed"},
		"no program":               {func(t *testing.T, dir string) { made(t, dir+"/run", 0, 0o644) }, 0, "/run has mode -rw-r--r--: want a file that can be executed"},
		"Bob's, for root":          {func(t *testing.T, dir string) { made(t, dir+"/run", stranger, 0o755) }, 0, "/run is owned by uid 12345 and has mode 0755: want that it is root's: its owner"},
		"another's, for Bob":       {func(t *testing.T, dir string) { made(t, dir+"/run", stranger+1, 0o755) }, stranger, "/run is owned by uid 12346 and has mode 0755: want that it is root's or of uid 12345"},
		"for all to write":         {func(t *testing.T, dir string) { made(t, dir+"/run", 0, 0o757) }, 0, "/run is owned by uid 0 and has mode 0757: want that neither its group nor others may write to it"},
		"for a group to write":     {func(t *testing.T, dir string) { made(t, dir+"/run", stranger, 0o775) }, stranger, "/run is owned by uid 12345 and has mode 0775: want that neither"},
		"in a folder of Bob's":     {func(t *testing.T, dir string) { below(t, dir, stranger, 0o755) }, 0, "/in is owned by uid 12345 and has mode 0755: want that it is root's"},
		"in Bob's folder, for him": {func(t *testing.T, dir string) { below(t, dir, stranger, 0o755) }, stranger, ""},
		"in a folder of all":       {func(t *testing.T, dir string) { below(t, dir, 0, 0o777) }, 0, "/in is owned by uid 0 and has mode 0777: want that neither"},
		"in a sticky folder":       {func(t *testing.T, dir string) { below(t, dir, 0, fs.ModeSticky|0o777) }, 0, "/in is owned by uid 0 and has mode 0777: want that neither"},
		"below a sticky folder": {func(t *testing.T, dir string) {
			made(t, dir+"/tmp", 0, fs.ModeDir|fs.ModeSticky|0o777)
			made(t, dir+"/tmp/in", 0, fs.ModeDir|0o755)
			made(t, dir+"/tmp/in/run", 0, 0o755)
			link(t, "tmp/in/run", dir+"/run")
		}, 0, ""},
		"behind Bob's link": {func(t *testing.T, dir string) {
			made(t, dir+"/real", 0, 0o755)
			link(t, "real", dir+"/run")
			if err := os.Lchown(dir+"/run", stranger, stranger); err != nil {
				t.Fatal(err)
			}
		}, 0, "/run is owned by uid 12345 and has mode 0777: want that it is root's"},
		"a link to itself": {func(t *testing.T, dir string) { link(t, "run", dir+"/run") }, 0, "stat /run: too many levels of symbolic links"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.Chmod(dir, 0o755); err != nil { // independent of the umask
				t.Fatal(err)
			}
			test.make(t, dir)
			err := regularfile.GuardedProgram(filepath.Join(dir, "run"), test.uid)
			if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.HasPrefix(strings.ReplaceAll(err.Error(), dir, ""), test.want)) {
				t.Errorf("%v, want %q", err, test.want)
			}
		})
	}
}

// below makes a program in a folder with an owner and a mode, behind a link.
func below(t *testing.T, dir string, uid int, mode fs.FileMode) {
	t.Helper()
	made(t, dir+"/in", uid, fs.ModeDir|mode)
	made(t, dir+"/in/run", 0, 0o755)
	link(t, "in/run", dir+"/run")
}
