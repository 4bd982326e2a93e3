package sockdiag_test

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"runtime"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/bursar/bursar/internal/sockdiag"
)

const (
	alice   = 4712
	mallory = 4711
)

// ownAddress has ports that no other process of this machine dials from.
var ownAddress = netip.MustParseAddrPort("127.83.71.7:0")

// dial connects as a user of this machine, from an address, or any for the zero value.
func dial(t testing.TB, uid int, from netip.AddrPort, to netip.AddrPort) (fd int, local netip.AddrPort) {
	t.Helper()
	if os.Geteuid() != 0 && uid != os.Geteuid() {
		t.Fatal("this test plays several users: it needs root")
	}
	runtime.LockOSThread() // who creates a file is a property of the thread
	defer runtime.UnlockOSThread()
	if _, err := unix.SetfsuidRetUid(uid); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if _, err := unix.SetfsuidRetUid(os.Geteuid()); err != nil {
			t.Fatal(err)
		}
	}()
	family := unix.AF_INET
	if to.Addr().Is6() {
		family = unix.AF_INET6
	}
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1); err != nil {
		t.Fatal(err)
	}
	// Nothing is left of a connection that is reset, so that its port can be used again at once.
	if err := unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1}); err != nil {
		t.Fatal(err)
	}
	if from.IsValid() {
		if err := unix.Bind(fd, sockaddr(from)); err != nil {
			t.Fatal(err)
		}
	}
	if err := unix.Connect(fd, sockaddr(to)); err != nil {
		t.Fatal(err)
	}
	name, err := unix.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	switch name := name.(type) {
	case *unix.SockaddrInet4:
		local = netip.AddrPortFrom(netip.AddrFrom4(name.Addr), uint16(name.Port))
	case *unix.SockaddrInet6:
		local = netip.AddrPortFrom(netip.AddrFrom16(name.Addr), uint16(name.Port))
	}
	return fd, local
}

func sockaddr(at netip.AddrPort) unix.Sockaddr {
	if at.Addr().Is4() {
		return &unix.SockaddrInet4{Port: int(at.Port()), Addr: at.Addr().As4()}
	}
	return &unix.SockaddrInet6{Port: int(at.Port()), Addr: at.Addr().As16()}
}

func listen(t testing.TB, address string) (net.Listener, netip.AddrPort) {
	t.Helper()
	listener, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	return listener, netip.MustParseAddrPort(listener.Addr().String())
}

func accept(t testing.TB, listener net.Listener) net.Conn {
	t.Helper()
	server, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Close() })
	return server
}

// ends are the two ends of a connection as its server sees them.
func ends(server net.Conn) (own, other netip.AddrPort) {
	return netip.MustParseAddrPort(server.LocalAddr().String()), netip.MustParseAddrPort(server.RemoteAddr().String())
}

func TestEachConnectionIsItsUsers(t *testing.T) {
	for name, address := range map[string]struct{ listen, dial string }{
		"IPv4":                          {"127.0.0.1:0", "127.0.0.1"},
		"IPv6":                          {"[::1]:0", "::1"},
		"IPv4 at a listener of both":    {"[::]:0", "127.0.0.1"},
		"IPv4 spoken by an IPv6 socket": {"127.0.0.1:0", "::ffff:127.0.0.1"},
	} {
		t.Run(name, func(t *testing.T) {
			listener, at := listen(t, address.listen)
			to := netip.AddrPortFrom(netip.MustParseAddr(address.dial), at.Port())
			owners := map[net.Conn]int{}
			for _, uid := range []int{0, alice, mallory, alice, 0} {
				fd, _ := dial(t, uid, netip.AddrPort{}, to)
				defer unix.Close(fd)
				owners[accept(t, listener)] = uid
			}
			for server, uid := range owners {
				own, other := ends(server)
				if got, err := sockdiag.Owner(other, own); err != nil || int(got) != uid {
					t.Errorf("the client's end: uid %d, %v: want %d", got, err, uid)
				}
				if got, err := sockdiag.Owner(own, other); err != nil || int(got) != os.Geteuid() {
					t.Errorf("the server's end: uid %d, %v: want this test's", got, err)
				}
			}
		})
	}
}

func TestConnectionThatWasClosedIsNobodys(t *testing.T) {
	listener, at := listen(t, "127.0.0.1:0")
	fd, local := dial(t, alice, ownAddress, at)
	own, other := ends(accept(t, listener))
	// The listener of a port is not the one that was connected from it.
	if err := unix.Close(fd); err != nil {
		t.Fatal(err)
	}
	listen(t, local.String())
	if uid, err := sockdiag.Owner(other, own); !errors.Is(err, sockdiag.ErrNone) {
		t.Errorf("uid %d, %v: want none", uid, err)
	}
}

func TestPortThatIsUsedAgainIsTheNewUsers(t *testing.T) {
	listener, at := listen(t, "127.0.0.1:0")
	fd, local := dial(t, alice, ownAddress, at)
	accept(t, listener)
	if err := unix.Close(fd); err != nil {
		t.Fatal(err)
	}
	again, _ := dial(t, mallory, local, at)
	defer unix.Close(again)
	own, other := ends(accept(t, listener))
	if other != local {
		t.Fatalf("from %s, want the port of before, %s", other, local)
	}
	if uid, err := sockdiag.Owner(other, own); err != nil || uid != mallory {
		t.Errorf("uid %d, %v: want %d", uid, err, mallory)
	}
}

func TestConnectionOfAnotherMachineIsNobodysHere(t *testing.T) {
	_, at := listen(t, "127.0.0.1:0")
	for _, other := range []string{"192.0.2.1:4711", "[2001:db8::1]:4711"} {
		if uid, err := sockdiag.Owner(netip.MustParseAddrPort(other), at); err == nil {
			t.Errorf("%s: uid %d", other, uid)
		}
	}
}

// A service manager may forbid the address family, and a container's filter of system calls.
func TestWhereTheKernelMayNotBeAskedTheErrorSaysWhatToAllow(t *testing.T) {
	asked := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with its filter
		if err := forbidSockets(); err != nil {
			asked <- err
			return
		}
		_, err := sockdiag.Owner(netip.MustParseAddrPort("127.0.0.1:1"), netip.MustParseAddrPort("127.0.0.1:2"))
		asked <- err
	}()
	var denied *sockdiag.DeniedError
	if err := <-asked; !errors.As(err, &denied) || !errors.Is(err, unix.EAFNOSUPPORT) || !strings.Contains(err.Error(), "want AF_NETLINK allowed") {
		t.Error(err)
	}
}

// forbidSockets lets every socket(2) of this thread fail as RestrictAddressFamilies= does.
func forbidSockets() error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 0}, // the number of the call
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.SYS_SOCKET, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EAFNOSUPPORT)},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	return unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&program)), 0, 0)
}

// BenchmarkOwner has 4,000 connections of others on the machine.
func BenchmarkOwner(b *testing.B) {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		b.Fatal(err)
	}
	listener, at := listen(b, "127.0.0.1:0")
	var own, other netip.AddrPort
	for range 4000 {
		fd, _ := dial(b, os.Geteuid(), netip.AddrPort{}, at)
		b.Cleanup(func() { _ = unix.Close(fd) })
		own, other = ends(accept(b, listener))
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := sockdiag.Owner(other, own); err != nil {
			b.Fatal(err)
		}
	}
}
