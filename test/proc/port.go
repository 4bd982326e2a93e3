package proc

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// The ports are lowest to lowest+count-1. Linux hands out 32768 to 60999 by itself.
//
// These ports are below the system's range for outgoing connections and for listeners on port 0. On
// a busy machine the system soon reuses a port of a closed listener: for another test, or for a
// client that keeps trying to reach the very server that shall listen there.
const (
	lowest = 10000
	count  = 22000
)

// FreePort returns a port on which nothing listens at that address of this machine, over TCP or
// UDP. The host is an IP address. It is for servers that cannot use port 0, or that restart on the
// same port. No two calls return the same port, in this process or in another one that runs tests,
// until this process ends. Other programs may still take the port.
func FreePort(host string) (int, error) {
	for range 1000 {
		if port := lowest + rand.IntN(count); free(host, port) && reserve(port) {
			return port, nil
		}
	}
	return 0, fmt.Errorf("no free port on %s", host)
}

// reserve binds an abstract Unix socket whose name contains the port. The kernel gives a name to
// one process at a time, and releases it when that process ends: the descriptor stays open on
// purpose.
func reserve(port int) bool {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return false
	}
	if err := unix.Bind(fd, &unix.SockaddrUnix{Name: "@bursar-test-port-" + strconv.Itoa(port)}); err != nil {
		_ = unix.Close(fd)
		return false
	}
	return true
}

// FreeAddress returns a free address on loopback, as host:port: see FreePort.
func FreeAddress() (string, error) {
	const host = "127.0.0.1"
	port, err := FreePort(host)
	return net.JoinHostPort(host, strconv.Itoa(port)), err
}

// Address is FreeAddress for a test, which fails if there is none.
func Address(tb testing.TB) string {
	tb.Helper()
	address, err := FreeAddress()
	if err != nil {
		tb.Fatal(err)
	}
	return address
}

func free(host string, port int) bool {
	address := net.JoinHostPort(host, strconv.Itoa(port))
	tcp, err := net.Listen("tcp", address) //nolint:noctx // it listens, and waits for nothing
	if errors.Is(err, syscall.EADDRNOTAVAIL) {
		return true // an address of another network namespace, which only the server uses
	}
	if err != nil {
		return false
	}
	defer tcp.Close()
	udp, err := net.ListenPacket("udp", address) //nolint:noctx // see above
	if err != nil {
		return false
	}
	return udp.Close() == nil
}
