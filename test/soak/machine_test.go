package soak

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"connectrpc.com/connect"

	"github.com/bursar/bursar/providers/host"
)

// machine is a host of which everything is played, so that days pass in seconds. Its processes
// have pids that no real one has.
type machine struct {
	mu        sync.Mutex
	next      int32                // guarded by mu
	processes map[int32]*processed // guarded by mu
}

type processed struct {
	start  uint64
	until  time.Time
	memory int64
}

// firstPID is above what a kernel gives out (2^22).
const firstPID = 1 << 23

func newMachine() *machine { return &machine{next: firstPID, processes: make(map[int32]*processed)} }

// start starts a process that ends by itself.
func (m *machine) start(long time.Duration, memory int64) (pid int32) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.next++
	m.processes[m.next] = &processed{start: uint64(m.next), until: time.Now().Add(long), memory: memory}
	return m.next
}

// running is the process of a pid; nil: there is none.
func (m *machine) running(pid int32) *processed {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.processes[pid]
	if p != nil && !time.Now().Before(p.until) {
		delete(m.processes, pid)
		p = nil
	}
	return p
}

func (*machine) Capacity(context.Context) (host.Capacity, error) {
	return host.Capacity{MemoryBytes: 64 << 30, CPUMillis: 64000}, nil
}

func (*machine) Sample(context.Context) host.Sample {
	return host.Sample{Time: time.Now(), MemoryTotalBytes: new(int64(64 << 30)), MemoryAvailableBytes: new(int64(60 << 30))}
}

// Marks says nothing.
func (*machine) Marks(host.Engine) host.Marks { return host.Marks{} }

func (*machine) Available(context.Context) (int64, error) { return 60 << 30, nil }

func (*machine) View(int32) (host.View, error) { return host.View{}, nil }

func (*machine) Place() host.Place { return host.Place{} }

func (m *machine) Engines(_ context.Context, engines []host.Engine) []host.Usage {
	usages := make([]host.Usage, len(engines))
	for i, e := range engines {
		usages[i].ID = e.ID
		if p := m.running(e.PID); p != nil && p.start == e.StartTime {
			usages[i] = host.Usage{ID: e.ID, Alive: true, Processes: 1, MemoryBytes: p.memory, UnreclaimableBytes: p.memory, CPUMillis: int64(time.Now().Minute())}
		}
	}
	return usages
}

func (*machine) BootID() (string, error) { return "boot", nil }

func (m *machine) Identify(pid int32) (host.Identity, error) {
	if p := m.running(pid); p != nil {
		return host.Identity{PID: pid, StartTime: p.start, State: 'S', Threads: 1}, nil
	}
	return host.Identity{}, host.ErrNoProcess
}

func (*machine) OwnCgroup(int32) (string, error) { return "", nil }

// wire is a network of one place to call, in a bubble: connections are pipes.
type wire struct {
	mu       sync.Mutex
	listener *listener  // guarded by mu; nil: nobody listens
	open     []net.Conn // guarded by mu
}

func newWire() *wire { return &wire{} }

// listen begins to listen, in the place of the listener before.
func (w *wire) listen() *listener {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.listener = &listener{calls: make(chan net.Conn), closed: make(chan struct{})}
	return w.listener
}

var errRefused = errors.New("nobody listens")

func (w *wire) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	w.mu.Lock()
	l := w.listener
	w.mu.Unlock()
	if l == nil {
		return nil, errRefused
	}
	ours, theirs := net.Pipe()
	select {
	case l.calls <- theirs:
	case <-l.closed:
		return nil, errRefused
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.open = append(w.open, theirs)
	return ours, nil
}

// cut breaks every connection.
func (w *wire) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, conn := range w.open {
		_ = conn.Close()
	}
	w.open = nil
}

type listener struct {
	calls  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.calls:
		return conn, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *listener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (*listener) Addr() net.Addr { return &net.UnixAddr{Name: "wire", Net: "unix"} }

// over reports whether a call says that there is nothing to be done about an allocation any more.
func over(err error) bool {
	code := connect.CodeOf(err)
	return code == connect.CodeNotFound || code == connect.CodeFailedPrecondition
}
