package socket

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"connectrpc.com/connect"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/sys/unix"

	"github.com/bursar/bursar/internal/admission"
	"github.com/bursar/bursar/internal/subuid"
	"github.com/bursar/bursar/providers/host"
)

// asUser calls f in a thread of another user, which ends with it. Only root can be another.
func asUser(t *testing.T, uid int, f func()) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Fatal("this test plays several users: it needs root")
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // for ever: the thread is not fit for others
		const same = ^uintptr(0)
		if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, same, uintptr(uid), same); errno != 0 {
			t.Error(errno)
			return
		}
		f()
	}()
	<-done
}

// flooded is a server that accepts connections, and counts its lookups.
type flooded struct {
	*Server

	path      string
	processes atomic.Int64
	names     atomic.Int64
}

func newFlooded(t *testing.T, owner func(uid uint32) string) *flooded {
	t.Helper()
	f := &flooded{Server: newServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})), path: filepath.Join(t.TempDir(), "s")}
	f.options.Proc = "/proc"
	f.options.View = func(int32) (host.View, error) {
		f.processes.Add(1)
		return host.View{}, nil
	}
	if owner != nil {
		f.Peers.users.Charged = func(uid uint32, _ bool, _ subuid.Names) (string, bool, error) { return owner(uid), true, nil }
	}
	inFile := f.Peers.users.NameOfFile
	f.Peers.users.NameOfFile = func(uid uint32) (string, error) {
		f.names.Add(1)
		return inFile(uid)
	}
	for dir := filepath.Dir(f.path); dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: f.path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(f.path, 0o666); err != nil {
		t.Fatal(err)
	}
	server := f.HTTP(true)
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(f.ofPeers(listener)) }()
	t.Cleanup(func() {
		_ = server.Close()
		if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	return f
}

// open opens a connection as the user of this thread. It waits while the queue is full, as net.Dial
// does not.
func (f *flooded) open(t *testing.T) (fd int) {
	t.Helper()
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err == nil {
		err = unix.Connect(fd, &unix.SockaddrUnix{Name: f.path})
	}
	if err != nil {
		t.Error(err)
	}
	return fd
}

// connect opens a connection as the user of this thread, and reports whether it was closed at once.
func (f *flooded) connect(t *testing.T) (closed bool) {
	t.Helper()
	fd := f.open(t)
	defer unix.Close(fd)
	if _, err := unix.Write(fd, []byte("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")); err != nil {
		return true
	}
	answer := make([]byte, 64)
	n, err := unix.Read(fd, answer)
	return n <= 0 || err != nil
}

const stranger, honest = 65531, 65532

// A user who connects as fast as possible is refused before any lookup of the process or of the
// user. Others are served at the same time.
func TestFloodOfConnectionsIsClosedBeforeAnythingIsLookedUp(t *testing.T) {
	f := newFlooded(t, nil)
	limits := Limits(50, 200, 64)
	flood := limits.ConnectBurst + 3000
	asUser(t, stranger, func() {
		for range flood {
			_ = unix.Close(f.open(t))
		}
	})
	asUser(t, honest, func() {
		for range 100 {
			if f.connect(t) {
				t.Error("another user's connection was closed")
			}
		}
	})
	// Connections are taken in their order, so all of the flood were. In each second of it, some
	// hundred more may come.
	if taken := flood - f.refused(t); taken < limits.ConnectBurst || taken > limits.ConnectBurst+2000 {
		t.Errorf("of %d connections of one user %d were taken: want about %d", flood, taken, limits.ConnectBurst)
	}
	if n := f.processes.Load(); n != 0 {
		t.Errorf("%d processes were looked up, and no request was about one", n)
	}
	if n := f.names.Load(); n > int64(limits.ConnectBurst)+2100 {
		t.Errorf("%d names were looked up", n)
	}
}

// refused is how many connections were closed at once.
func (f *flooded) refused(t *testing.T) (n int) {
	t.Helper()
	registry := prometheus.NewRegistry()
	registry.MustRegister(f.options.Refused)
	page := httptest.NewRecorder()
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(page, httptest.NewRequest(http.MethodGet, "/", http.NoBody))
	_, value, _ := strings.Cut(page.Body.String(), "refused_total{reason=\"connections\"} ")
	if _, err := fmt.Sscan(value, &n); err != nil {
		t.Fatal(err, page.Body)
	}
	return n
}

// A user that opens connections somewhat too fast waits for a moment and is then answered: a loop
// of commands is no flood.
func TestWhoConnectsSomewhatTooFastIsAnsweredAMomentLater(t *testing.T) {
	f := newFlooded(t, nil)
	f.Admitted.SetLimits(admission.Limits{Rate: 1000, Burst: 1000, Calls: 1000, Connects: 1000, ConnectBurst: 10})
	asUser(t, stranger, func() {
		var all [100]int
		for i := range all { // the last one's turn is after 90 ms
			all[i] = f.open(t)
			if _, err := unix.Write(all[i], []byte("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")); err != nil {
				t.Errorf("connection %d was closed: %v", i, err)
			}
		}
		for i, fd := range all {
			if n, err := unix.Read(fd, make([]byte, 64)); n <= 0 || err != nil {
				t.Errorf("connection %d was not answered: %v", i, err)
			}
			_ = unix.Close(fd)
		}
	})
	if n := f.refused(t); n != 0 {
		t.Errorf("%d were refused", n)
	}
}

// Subordinate uids count on their owner, before their names are known.
func TestConnectionsOfSubordinateUsersCountOnTheirOwner(t *testing.T) {
	f := newFlooded(t, func(uint32) string { return "alice" })
	f.Admitted.SetLimits(admission.Limits{Rate: 1000, Burst: 1000, Calls: 1000, Connects: 1, ConnectBurst: 3})
	taken := 0
	for uid := 100000; uid < 100010; uid++ {
		asUser(t, uid, func() {
			if !f.connect(t) {
				taken++
			}
		})
	}
	if taken < 3 || taken > 8 { // one a second is let in
		t.Errorf("%d of 10 users of one owner were served: want 3", taken)
	}
	for range 10 {
		if f.connect(t) {
			t.Error("a trusted user's connection was closed")
		}
	}
}

// Before Linux 6.5 the connected process cannot be identified after its pid was reused. A process
// that started after the connection was made is another one.
func TestProcessThatStartedAfterItsConnectionIsAnother(t *testing.T) {
	pid := int32(os.Getpid())
	now := host.TicksSinceBoot()
	identify := func(root string) Identify {
		meter, err := host.NewMeter(host.Options{Root: root})
		if err != nil {
			t.Fatal(err)
		}
		return meter.Identify
	}
	for moment, want := range map[uint64]bool{now: false, host.TicksPerSecond: true, 0: true} {
		if after, err := startedAfter(identify("/"), pid, moment); err != nil || after != want {
			t.Errorf("started after %v: %v, %v", moment, after, err)
		}
	}
	if after, err := startedAfter(identify(t.TempDir()), pid, now); err != nil || !after {
		t.Errorf("a process that is gone: %v, %v", after, err)
	}
}

// The process is looked up when it is asked for, once, and not after the connection was closed.
func TestProcessIsLookedUpWhenItIsNeeded(t *testing.T) {
	f := newFlooded(t, nil)
	accepted := func() (*peerConn, net.Conn) {
		t.Helper()
		path := filepath.Join(t.TempDir(), "s")
		listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
		if err != nil {
			t.Fatal(err)
		}
		defer listener.Close()
		client, err := net.Dial("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		conn, err := f.ofPeers(listener).Accept()
		if err != nil {
			t.Fatal(err)
		}
		return conn.(*peerConn), client //nolint:errcheck // it gives no other
	}
	conn, client := accepted()
	defer client.Close()
	if f.processes.Load() != 0 {
		t.Error("it was looked up before it was needed")
	}
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 0, Max: limit.Max}); err != nil {
		t.Fatal(err)
	}
	_, err := conn.process.Seen(t.Context())
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	if connect.CodeOf(err) != connect.CodeResourceExhausted || !strings.Contains(err.Error(), "LimitNOFILE=") {
		t.Errorf("without descriptors: %v", err)
	}
	for range 2 {
		if _, err := conn.process.Seen(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if n := f.processes.Load(); n != 1 {
		t.Errorf("it was looked up %d times", n)
	}
	_ = conn.Close()
	another, other := accepted()
	defer other.Close()
	_ = another.Close()
	if _, err := another.process.Seen(t.Context()); err == nil || f.processes.Load() != 1 {
		t.Errorf("after the connection was closed: %v", err)
	}
	_, _ = io.Copy(io.Discard, client)
}
