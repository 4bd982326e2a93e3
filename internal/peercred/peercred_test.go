package peercred

import (
	"net"
	"os"
	"path/filepath"
	"testing"
)

func TestBothEndsKnowWhoTheOtherIs(t *testing.T) {
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(t.TempDir(), "s"), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	near, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: listener.Addr().String(), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	defer near.Close()
	far, err := listener.AcceptUnix()
	if err != nil {
		t.Fatal(err)
	}
	defer far.Close()
	for name, conn := range map[string]*net.UnixConn{"who listens": near, "who has connected": far} {
		peer, err := Of(conn)
		if err != nil || int(peer.Pid) != os.Getpid() || int64(peer.Uid) != int64(os.Geteuid()) {
			t.Errorf("%s is %+v, %v", name, peer, err)
		}
	}
}

func TestOfAClosedConnectionNothingIsKnown(t *testing.T) {
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(t.TempDir(), "s"), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: listener.Addr().String(), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
	if peer, err := Of(conn); err == nil {
		t.Errorf("%+v", peer)
	}
}
