package sockdiag

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

func TestTheFileOfASocketIsKnown(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	listen := func(address string) *net.UnixListener {
		t.Helper()
		listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: address, Net: "unix"})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { listener.Close() })
		listener.SetUnlinkOnClose(false)
		return listener
	}
	inodeOf := func() uint32 {
		t.Helper()
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		stat, ok := info.Sys().(*syscall.Stat_t)
		if !ok {
			t.Fatalf("%s: no stat of Linux", path)
		}
		return uint32(stat.Ino)
	}
	first := listen(path)
	was := inodeOf()
	if got, err := File(first); got != was || err != nil {
		t.Errorf("the file is %d, %v; want %d", got, err, was)
	}
	if err := os.Rename(path, path+".away"); err != nil { // its inode stays taken
		t.Fatal(err)
	}
	second := listen(path)
	if got, err := File(first); got != was || err != nil {
		t.Errorf("once the path is another socket's, the file is %d, %v; want %d", got, err, was)
	}
	if got, err := File(second); got != inodeOf() || err != nil || got == was {
		t.Errorf("the file of the other socket is %d, %v; want %d", got, err, inodeOf())
	}
	if got, err := File(listen("@bursar-test-" + filepath.Base(t.TempDir()))); !errors.Is(err, ErrNone) {
		t.Errorf("the file of an abstract socket is %d, %v; want %v", got, err, ErrNone)
	}
}
