package folder_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/bursar/bursar/agent/output/folder"
)

func TestFoldersOpenAsTheKernelOpensThem(t *testing.T) {
	dir := t.TempDir()
	in := func(elements ...string) string { return filepath.Join(append([]string{dir}, elements...)...) }
	for _, err := range []error{
		os.MkdirAll(in("a", "b"), 0o755), os.WriteFile(in("file"), nil, 0o600),
		os.Symlink("a", in("relative")), os.Symlink(in("a"), in("absolute")), os.Symlink("../relative/b/../b", in("a", "up")),
		os.Symlink("loop", in("loop")), os.Symlink("none", in("dangling")), os.Symlink("file", in("tofile")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{
		"/", in(), in("a") + "//b/./", in("a", "b") + "/..", in("relative", "b"), in("absolute", "b"), in("a", "up"), in("none"), in("file"),
		in("file", "x"), in("loop"), in("dangling"), in("tofile"), "/../..", "/proc/self/cwd",
	} {
		for _, flags := range []int{unix.O_PATH, unix.O_RDONLY} {
			fd, err := folder.Open(name, flags)
			want, wantErr := unix.Open(name, flags|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
			if !errors.Is(err, wantErr) || (err == nil) != (wantErr == nil) {
				t.Errorf("%s: %v, want %v", name, err, wantErr)
				continue
			}
			if err != nil {
				continue
			}
			var stat, wanted unix.Stat_t
			if err := errors.Join(unix.Fstat(fd, &stat), unix.Fstat(want, &wanted), unix.Close(fd), unix.Close(want)); err != nil || stat.Ino != wanted.Ino || stat.Dev != wanted.Dev {
				t.Errorf("%s is another folder: %v", name, err)
			}
		}
	}
}

func TestLinksOfOtherUsersAreNotFollowed(t *testing.T) {
	if os.Geteuid() != 0 {
		return // only root can make links of another user
	}
	dir := t.TempDir()
	link := filepath.Join(dir, "link")
	if err := errors.Join(os.Mkdir(filepath.Join(dir, "real"), 0o755), os.Symlink("real", link), os.Lchown(link, 31337, 31337)); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{link, link + "/.", link + "/../real"} {
		_, err := folder.Open(name, unix.O_PATH)
		if stranger, ok := errors.AsType[*folder.StrangerError](err); !ok || stranger.Link != link || stranger.UID != 31337 {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestOnlyRegularFilesOfAUserAreItsOutput(t *testing.T) {
	for _, c := range []struct {
		stat unix.Stat_t
		want string
	}{
		{unix.Stat_t{Mode: unix.S_IFREG | 0o600, Uid: 7}, ""},
		{unix.Stat_t{Mode: unix.S_IFREG | 0o600, Uid: 8}, "is a file of uid 8: want one of the engine's user, uid 7"},
		{unix.Stat_t{Mode: unix.S_IFIFO | 0o600, Uid: 7}, "is no regular file"},
		{unix.Stat_t{Mode: unix.S_IFLNK | 0o777, Uid: 7}, "is no regular file"},
		{unix.Stat_t{Mode: unix.S_IFCHR | 0o777, Uid: 7}, "is no regular file"},
	} {
		err := folder.Check(&c.stat, 7)
		if got := ""; err != nil || c.want != "" {
			if err != nil {
				got = err.Error()
			}
			if got != c.want {
				t.Errorf("%+v: %q, want %q", c.stat, got, c.want)
			}
		}
	}
}
