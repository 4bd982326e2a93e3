package discovery_test

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bursar/bursar/internal/discovery"
)

// listenAs makes a Unix socket as a user of this machine: the kernel records the user that listens.
func listenAs(t *testing.T, uid, backlog int) (path string, fd int) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "agent.sock")
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err == nil {
		err = unix.Bind(fd, &unix.SockaddrUnix{Name: path})
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(fd) })
	listened := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // the thread ends with this goroutine: it has another user
		const same = ^uintptr(0)
		if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, same, uintptr(uid), same); errno != 0 {
			listened <- errno
			return
		}
		listened <- unix.Listen(fd, backlog)
	}()
	if err := <-listened; err != nil {
		t.Fatal(err)
	}
	return path, fd
}

// Another user has replaced the agent's socket: that user receives no byte of a call.
func TestWhoeverListensOnASocketGetsNothingOfOthers(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Fatal("this test plays several users: it needs root")
	}
	for uid, want := range map[int]bool{0: true, 999: true, 4711: false, 65534: false, 61184: true} {
		path, fd := listenAs(t, uid, 8)
		conn, err := discovery.DialSocket(t.Context(), new(net.Dialer).DialContext, path)
		if want {
			if err != nil {
				t.Errorf("uid %d: %v", uid, err)
				continue
			}
			_ = conn.Close()
			continue
		}
		foreign, is := errors.AsType[*discovery.ForeignServerError](err)
		if !is || foreign.Address != path || !strings.Contains(err.Error(), discovery.ServerUsers+"=") || strings.Contains(err.Error(), "https") {
			t.Errorf("uid %d: %v", uid, err)
		}
		taken, _, err := unix.Accept(fd)
		if err != nil {
			t.Fatal(err)
		}
		if n, err := unix.Read(taken, make([]byte, 8)); n != 0 || err != nil {
			t.Errorf("uid %d: it was sent %d bytes, %v", uid, n, err)
		}
		_ = unix.Close(taken)
	}
}

// The dial waits while the queue is full because another program connects as fast as possible.
func TestDialWaitsWhileTheQueueIsFull(t *testing.T) {
	path, fd := listenAs(t, os.Geteuid(), 0)
	first, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	if _, err := net.Dial("unix", path); !errors.Is(err, syscall.EAGAIN) {
		t.Fatalf("%v: want a full queue", err)
	}
	attempts := 0
	conn, err := discovery.DialSocket(t.Context(), func(ctx context.Context, network, address string) (net.Conn, error) {
		if attempts++; attempts == 3 {
			taken, _, err := unix.Accept(fd)
			if err != nil {
				t.Fatal(err)
			}
			defer unix.Close(taken)
		}
		return new(net.Dialer).DialContext(ctx, network, address)
	}, path)
	if err != nil || attempts != 3 {
		t.Fatalf("%v, after %d attempts", err, attempts)
	}
	_ = conn.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	full := &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.EAGAIN)}
	if _, err := discovery.DialSocket(ctx, func(context.Context, string, string) (net.Conn, error) { return nil, full }, path); !errors.Is(err, syscall.EAGAIN) {
		t.Errorf("%v: want what the kernel said", err)
	}
}
