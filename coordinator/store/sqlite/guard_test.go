package sqlite

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bursar/bursar/coordinator/store"
)

// stranger is another user.
const stranger = 12345

// precious is a file of root's that another user would like to overwrite.
func precious(t *testing.T) (path string, check func()) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "precious")
	if err := os.WriteFile(path, []byte("precious\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path, func() {
		t.Helper()
		info, err := os.Lstat(path)
		text, readErr := os.ReadFile(path)
		if err != nil || readErr != nil || string(text) != "precious\n" {
			t.Errorf("the file holds %q, %v", text, errors.Join(err, readErr))
		} else if info.Mode().Perm() != 0o600 || ownerOf(info) != os.Geteuid() {
			t.Errorf("the file is %v now", info.Mode())
		}
	}
}

func ownerOf(info fs.FileInfo) int {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(stat.Uid)
	}
	return -1
}

func asRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Fatal("this test plays several users: it needs root")
	}
}

func chown(t *testing.T, uid int, paths ...string) {
	t.Helper()
	for _, path := range paths {
		if err := os.Lchown(path, uid, uid); err != nil {
			t.Fatal(err)
		}
	}
}

// refused opens a store, which must be refused for the named file, by Check or Guard as by Open.
func refused(t *testing.T, path string, options Options, want ...string) {
	t.Helper()
	options.CheckTime = time.Minute
	s, err := Open(t.Context(), path, options)
	if err == nil {
		s.Close()
		t.Errorf("it was opened; want it refused: %q", want)
		return
	}
	before := Check(path)
	if before == nil && !options.OthersFolder {
		before = Guard(path)
	}
	for _, err := range []error{err, before} {
		refusal, ok := errors.AsType[*store.RefusedError](err)
		if !ok || refusal.Reason != store.Denied && refusal.Reason != store.Foreign || refusal.Want == "" {
			t.Errorf("%v: want it refused", err)
			continue
		}
		for _, part := range want {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%v: want %q in it", err, part)
			}
		}
	}
	t.Log(err)
}

// A user who can make links in the folder must not reach other files through the store, under any
// account of the service.
func TestNoFileOfAStoreIsALink(t *testing.T) {
	for _, suffix := range []string{".lock", "-wal", "-shm", "-journal"} {
		for _, there := range []bool{false, true} {
			target, check := precious(t)
			path := filepath.Join(t.TempDir(), "bursar.db")
			if there {
				path = filled(t, 1)
				_ = os.Remove(path + suffix)
			}
			if err := os.Symlink(target, path+suffix); err != nil {
				t.Fatal(err)
			}
			refused(t, path, Options{}, path+suffix, "symbolic link", "want a regular file")
			refused(t, path, Options{OthersFolder: true}, path+suffix, "symbolic link")
			check()
			if _, err := os.Lstat(path); !there && err == nil {
				t.Errorf("%s: the store was made all the same", suffix)
			}
		}
	}
	path := filepath.Join(t.TempDir(), "bursar.db")
	if err := syscall.Mkfifo(path+".lock", 0o600); err != nil {
		t.Fatal(err)
	}
	refused(t, path, Options{}, path+".lock is a special file")
}

func TestALinkOfAnotherUserIsNotFollowed(t *testing.T) {
	asRoot(t)
	target := filled(t, 1)
	link := filepath.Join(t.TempDir(), "bursar.db")
	if err := os.Symlink(target, link); err != nil {
		t.Fatal(err)
	}
	chown(t, stranger, link)
	refused(t, link, Options{}, link+" is owned by uid 12345")
	refused(t, link, Options{OthersFolder: true}, link+" is owned by uid 12345")
}

// Root's coordinator keeps no store where another user could place links.
func TestRootRefusesAStoreThatOthersCanChange(t *testing.T) {
	asRoot(t)
	for name, test := range map[string]struct {
		spoil func(t *testing.T, above, dir, path string)
		want  string
	}{
		"its folder is another's": {func(t *testing.T, _, dir, _ string) { chown(t, stranger, dir) }, "/above/data is owned by uid 12345"},
		"a folder above it is":    {func(t *testing.T, above, _, _ string) { chown(t, stranger, above) }, "/above is owned by uid 12345"},
		"its folder is everybody's": {func(t *testing.T, _, dir, _ string) {
			if err := os.Chmod(dir, 0o777); err != nil {
				t.Fatal(err)
			}
		}, "/above/data is owned by uid 0 and has mode 0777: want that nobody else may write to it"},
		"its file is another's": {func(t *testing.T, _, _, path string) { chown(t, stranger, path) }, "bursar.db is owned by uid 12345"},
		"its lock is another's": {func(t *testing.T, _, _, path string) { chown(t, stranger, path+".lock") }, "bursar.db.lock is owned by uid 12345"},
	} {
		t.Run(name, func(t *testing.T) {
			above := filepath.Join(t.TempDir(), "above")
			dir := filepath.Join(above, "data")
			path := filepath.Join(dir, "bursar.db")
			if err := os.MkdirAll(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			at(t, path).Close()
			test.spoil(t, above, dir, path)
			refused(t, path, Options{}, test.want)
		})
	}
	t.Run("its folder would be made in another's", func(t *testing.T) {
		above := t.TempDir()
		chown(t, stranger, above)
		refused(t, filepath.Join(above, "data", "bursar.db"), Options{}, above+" is owned by uid 12345")
		if list, err := os.ReadDir(above); err != nil || len(list) > 0 {
			t.Errorf("made %v, %v", list, err)
		}
	})
}

// An administrator opens the store of the service's user as root, and that user can use it
// afterwards: no file of root's stays.
func TestRootLooksAfterTheStoreOfAnotherUser(t *testing.T) {
	asRoot(t)
	path := filled(t, 1)
	chown(t, stranger, filepath.Dir(path), path)
	if err := os.Remove(path + ".lock"); err != nil {
		t.Fatal(err)
	}
	s, err := Open(t.Context(), path, Options{OthersFolder: true})
	if err != nil {
		t.Fatal(err)
	}
	fill(t, s, 1)
	for _, suffix := range []string{"", ".lock", "-wal", "-shm"} {
		info, err := os.Lstat(path + suffix)
		if err != nil {
			t.Error(err)
		} else if uid := ownerOf(info); uid != stranger {
			t.Errorf("%s is owned by uid %d", info.Name(), uid)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	chown(t, stranger+1, path+".lock")
	refused(t, path, Options{OthersFolder: true}, path+".lock is owned by uid 12346: want a file of uid 12345")
	target, check := precious(t)
	if err := errors.Join(os.Remove(path+".lock"), os.Link(target, path+".lock")); err != nil {
		t.Fatal(err)
	}
	refused(t, path, Options{OthersFolder: true}, path+".lock is a file of root's with 2 names")
	check()
}
