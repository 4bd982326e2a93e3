package socket

import (
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// Systemd counts each connection to the socket of a service that has not started yet, and gives the
// socket up after twenty in half a minute.
func TestASocketThatIsGivenIsFoundWithoutAConnection(t *testing.T) {
	path := filepath.Join(t.TempDir(), "agent.sock")
	listen := func() *net.UnixListener {
		t.Helper()
		listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
		if err != nil {
			t.Fatal(err)
		}
		listener.SetUnlinkOnClose(false)
		t.Cleanup(func() { listener.Close() })
		return listener
	}
	given := listen()
	find := func() *endpoint {
		e := &endpoint{options: Options{Given: given, Log: slog.New(slog.DiscardHandler)}, path: path, given: true}
		e.find(t.Context())
		return e
	}
	if find().made == nil {
		t.Error("the socket was not found")
	}
	raw, err := given.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	connections := -1
	if err := raw.Control(func(fd uintptr) {
		connections, err = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
	}); err != nil || connections != 0 {
		t.Errorf("%d connections wait, %v: want none", connections, err)
	}
	// An earlier incarnation has made another socket in its place.
	if err := os.Rename(path, path+".away"); err != nil {
		t.Fatal(err)
	}
	_ = listen().Close()
	if e := find(); e.made != nil || e.rules == nil {
		t.Errorf("the socket of an earlier incarnation was taken for the given one (%v, %v)", e.made, e.rules)
	}
}
