package machine

import (
	"fmt"
	"log/slog"
	"math"
	"testing"

	"golang.org/x/sys/unix"
)

// Each figure of a file system is judged alone. One that cannot be is left out, and closes no host:
// CephFS says -1 or 0 free inodes, CubeFS more free than there are.
func TestOddFiguresOfAFileSystem(t *testing.T) {
	const none = math.MaxUint64
	f := func(name string, found unix.Statfs_t, want fileSystem, odd bool) {
		t.Helper()
		got := judgeFigures(&found)
		if (got.odd != "") != odd {
			t.Errorf("%s: odd %q", name, got.odd)
		}
		got.odd = ""
		if got != want {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
	}
	space := fileSystem{totalBytes: 400, freeBytes: 200}
	both := fileSystem{totalBytes: 400, freeBytes: 200, totalInodes: 10, freeInodes: 5}
	good := unix.Statfs_t{Bsize: 4, Frsize: 4, Blocks: 100, Bfree: 60, Bavail: 50, Files: 10, Ffree: 5}
	with := func(change func(*unix.Statfs_t)) unix.Statfs_t {
		changed := good
		change(&changed)
		return changed
	}
	f("as it should be", good, both, false)
	f("no inodes are counted", with(func(s *unix.Statfs_t) { s.Files, s.Ffree = 0, 0 }), space, false)
	f("-1 free inodes", with(func(s *unix.Statfs_t) { s.Files, s.Ffree = 5079, none }), space, true)
	f("-1 inodes", with(func(s *unix.Statfs_t) { s.Files, s.Ffree = none, none }), space, true)
	f("more free inodes than there are", with(func(s *unix.Statfs_t) { s.Files, s.Ffree = 5079, 1<<24 }), space, true)
	f("no free inode of CephFS", with(func(s *unix.Statfs_t) { s.Type, s.Ffree = 0x00c36400, 0 }), space, false)
	f("no free inode behind FUSE", with(func(s *unix.Statfs_t) { s.Type, s.Ffree = unix.FUSE_SUPER_MAGIC, 0 }), space, false)
	f("no free inode of ext4", with(func(s *unix.Statfs_t) { s.Type, s.Ffree = unix.EXT4_SUPER_MAGIC, 0 }),
		fileSystem{totalBytes: 400, freeBytes: 200, totalInodes: 10}, false)
	inodes := fileSystem{totalInodes: 10, freeInodes: 5}
	f("the reserve of root is in use", with(func(s *unix.Statfs_t) { s.Bavail = none - 3 }), fileSystem{totalBytes: 400, totalInodes: 10, freeInodes: 5}, false)
	f("-1 free blocks", with(func(s *unix.Statfs_t) { s.Bfree, s.Bavail = none, none }), inodes, true)
	f("-1 blocks", with(func(s *unix.Statfs_t) { s.Blocks = none }), inodes, true)
	f("blocks without a size", with(func(s *unix.Statfs_t) { s.Bsize, s.Frsize = 0, 0 }), inodes, true)
	f("no blocks", with(func(s *unix.Statfs_t) { s.Blocks, s.Bfree, s.Bavail = 0, 0, 0 }), inodes, false)
	f("more free blocks than there are", with(func(s *unix.Statfs_t) { s.Bavail = 200 }),
		fileSystem{totalBytes: 400, freeBytes: 400, totalInodes: 10, freeInodes: 5}, true)
}

// What is not known is not short, however much is wanted.
func TestUnknownFiguresAreNotShort(t *testing.T) {
	w := NewWorkDirs(slog.New(slog.DiscardHandler))
	w.statfs = func(string) (fileSystem, error) { return fileSystem{odd: "-1 of 5079 inodes are free: left out"}, nil }
	dirs := []WorkDirSettings{parsedDir(t, WorkDir{Path: "/ceph", MinFree: "1TiB", MinFreeInodes: "1000000"})}
	disks, refusal, odd := w.Measure(t.Context(), dirs)
	if refusal != "" || len(disks) != 1 || disks[0].GetShort() || odd["/ceph"] == "" {
		t.Errorf("%q, %v, %v", refusal, disks, odd)
	}
}

// A heartbeat that names more sources than it may is refused: the host would be lost.
func TestSourcesFitAHeartbeat(t *testing.T) {
	degraded := map[string]string{}
	for i := range 70 {
		degraded[fmt.Sprintf("disk /%02d", i)] = "odd"
	}
	boundDegraded(degraded)
	if len(degraded) != mostDegraded || degraded["others"] != "39 more sources" || degraded["disk /00"] == "" {
		t.Errorf("%d: %v", len(degraded), degraded)
	}
}
