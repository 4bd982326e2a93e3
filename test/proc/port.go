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

// The ports are lowest to lowest+count-1. Linux gives out 32768 to 60999 by itself.
//
// The ports are below those that the system gives to outgoing connections and to listeners on port
// 0. A port that a listener was given, and that was closed then, is soon given to somebody else on
// a busy machine: to another test, or to a client that tries again and again to reach the very
// server that is to listen there.
const (
	lowest = 10000
	count  = 22000
)

// FreePort returns a port that nobody listens on at that address of this machine, over TCP or UDP.
// The host is an IP address. It is for servers that cannot use port 0, or that are started again
// on the same port. No two calls return the same port, in this process or in another one that runs
// tests, until this process ends. Programs that do not ask this function may still take it.
func FreePort(host string) (int, error) {
	for range 1000 {
		if port := lowest + rand.IntN(count); free(host, port) && reserve(port) {
			return port, nil
		}
	}
	return 0, fmt.Errorf("no free port on %s", host)
}

// reserve takes an abstract Unix socket whose name is the port's. The kernel gives a name to one
// process at a time, and takes it back when that ends: the descriptor is left open on purpose.
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

// FreeAddress returns an address on loopback, as host:port, that nobody listens on: see FreePort.
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
		return true // the address of another network namespace, which is the server's alone
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
