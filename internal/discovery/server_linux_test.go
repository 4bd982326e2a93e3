package discovery_test

import (
	"context"
	"errors"
	"net"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bursar/bursar/internal/discovery"
)

// serveAs accepts connections on an address as a user of this machine, and returns the port. The
// received text arrives at got.
func serveAs(t *testing.T, uid int, address string) (port string, got <-chan string) {
	t.Helper()
	at, err := net.ResolveTCPAddr("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.ListenTCP("tcp", at)
	if err != nil {
		t.Fatal(err)
	}
	file, err := listener.File() // blocking, so that this thread accepts
	if err != nil {
		t.Fatal(err)
	}
	fd := int(file.Fd())
	if err := syscall.SetNonblock(fd, false); err != nil {
		t.Fatal(err)
	}
	texts, done := make(chan string, 16), make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // the thread ends with this goroutine: it has another user
		if err := syscall.Setfsuid(uid); err != nil {
			panic(err)
		}
		for {
			conn, _, err := syscall.Accept(fd)
			if err != nil {
				return
			}
			buffer := make([]byte, 64)
			n, _ := syscall.Read(conn, buffer)
			texts <- string(buffer[:max(n, 0)])
			_ = syscall.Close(conn)
		}
	}()
	t.Cleanup(func() {
		_ = syscall.Shutdown(fd, syscall.SHUT_RDWR)
		<-done
		_ = file.Close()
		_ = listener.Close()
	})
	_, port, err = net.SplitHostPort(listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port, texts
}

// An ordinary user listens on the port of a server that is down: that user receives no byte of
// another user's calls.
func TestWhoeverListensOnAPortGetsNothingOfOthers(t *testing.T) {
	isRoot := os.Geteuid() == 0 // otherwise all of them are this user
	dial := discovery.DialKnown(discovery.DialLocalhost(net.Dialer{Timeout: time.Second}))
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for uid, may := range map[int]bool{0: true, 998: true, 61200: true, 1000: false, 12345: false, 65534: false} {
		port, got := serveAs(t, uid, "127.0.0.1:0")
		conn, err := dial(ctx, "tcp", "127.0.0.1:"+port)
		if may || !isRoot {
			if err != nil {
				t.Errorf("user %d: %v", uid, err)
				continue
			}
			_, _ = conn.Write([]byte("secret"))
			if text := <-got; text != "secret" {
				t.Errorf("user %d: it got %q", uid, text)
			}
			_ = conn.Close()
			continue
		}
		if foreign, is := errors.AsType[*discovery.ForeignServerError](err); !is || !strings.HasSuffix(foreign.Address, ":"+port) {
			t.Errorf("user %d: %v; want it refused", uid, err)
		}
		if text := <-got; text != "" {
			t.Errorf("user %d: it got %q", uid, text)
		}
	}
}

// A program that occupies one of localhost's two addresses does not keep callers from the server on
// the other.
func TestTheOtherAddressOfLocalhostIsTried(t *testing.T) {
	port, got := serveAs(t, os.Geteuid(), "127.0.0.1:0")
	squatters, _ := serveAs(t, 12345, "[::1]:0")
	if os.Geteuid() != 0 {
		return // both are this user's
	}
	local := discovery.DialLocalhost(net.Dialer{Timeout: time.Second})
	dial := discovery.DialKnown(func(ctx context.Context, network, address string) (net.Conn, error) {
		if host, _, _ := net.SplitHostPort(address); host == "localhost" { // ::1 comes first
			address = "[::1]:" + squatters
		}
		return local(ctx, network, address)
	})
	conn, err := dial(t.Context(), "tcp", "localhost:"+port)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = conn.Write([]byte("a call"))
	if text := <-got; text != "a call" {
		t.Errorf("the server got %q", text)
	}
	_ = conn.Close()
}

// A connection that no program accepts fails with an error that says so.
func TestAServerThatAcceptsNothingIsGivenUp(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0") // nobody accepts
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	address := listener.Addr().String()
	_, err = discovery.DialKnown((&net.Dialer{}).DialContext)(ctx, "tcp", address)
	if err == nil || !strings.Contains(err.Error(), address) || !strings.Contains(err.Error(), "does not accept") {
		t.Errorf("%v; want that %s does not accept", err, address)
	}
}
