package socket

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"sync"

	"connectrpc.com/connect"
	"golang.org/x/sys/unix"

	"github.com/bursar/bursar/internal/sockdiag"
	"github.com/bursar/bursar/providers/host"
)

// Process is the process at the other end of a connection. It shows in which pid namespace a
// caller's pids are: a container that has the agent's socket knows its processes by other numbers.
type Process struct {
	find func(ctx context.Context) (host.View, error)

	mu   sync.Mutex
	view *host.View // guarded by mu; nil: it has not been found yet
}

// View says how a process sees others. host.ErrNoProcess: no process has the pid.
type View func(pid int32) (host.View, error)

type processKey struct{}

// WithProcess returns the context of a call that the process makes.
func WithProcess(ctx context.Context, p *Process) context.Context {
	return context.WithValue(ctx, processKey{}, p)
}

// ProcessOf returns the process at the other end of the connection that a call came over; nil: it
// came over none.
func ProcessOf(ctx context.Context) *Process {
	p, _ := ctx.Value(processKey{}).(*Process)
	return p
}

// Seen returns how the peer sees processes, or a refusal which says that the agent cannot tell and
// what to do.
func (p *Process) Seen(ctx context.Context) (host.View, error) {
	if p == nil {
		return host.View{}, nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.view != nil {
		return *p.view, nil
	}
	view, err := p.find(ctx)
	if err != nil {
		return view, connect.NewError(connect.CodeFailedPrecondition, fmt.Errorf("process.pid: the agent cannot know the process: %w: want an agent in the host's pid "+
			"namespace (docker run --pid=host) and a caller that waits for its answer, an engine that the agent starts (bursar run --detach), or one with an address and a lease", err))
	}
	p.view = &view
	return view, nil
}

func (p *Process) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.view != nil {
		_ = p.view.PIDs.Close() // it was only read
	}
}

// knownProcess is a process that is known already, or whose error is known already.
func knownProcess(view host.View, err error) *Process {
	if err != nil {
		return &Process{find: func(context.Context) (host.View, error) { return host.View{}, err }}
	}
	return &Process{view: &view}
}

var (
	errUnseenPeer = errors.New("the caller is in a pid namespace that this agent does not see")
	errEndedPeer  = errors.New("the process that connected has ended")
)

// UnseenProcess is one in a pid namespace that this process does not see.
func UnseenProcess() *Process { return knownProcess(host.View{}, errUnseenPeer) }

// connectedProcess is the process that connected to a Unix socket. A pidfd is kept while it is
// inspected, so that its pid cannot become another's.
func connectedProcess(view View, conn *net.UnixConn, pid int32) *Process {
	if pid == 0 {
		return UnseenProcess()
	}
	held, err := holdPeer(conn, pid)
	if err != nil {
		return knownProcess(host.View{}, err)
	}
	seen, err := view(pid)
	if held != nil {
		defer held.Close()
		if unix.PidfdSendSignal(int(held.Fd()), 0, nil, 0) == unix.ESRCH {
			return knownProcess(host.View{}, errors.Join(errEndedPeer, seen.PIDs.Close()))
		}
	}
	return knownProcess(seen, err)
}

// holdPeer returns a pidfd of the process that connected; nil: this kernel has none.
func holdPeer(conn *net.UnixConn, pid int32) (*os.File, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil, fmt.Errorf("peer: %w", err)
	}
	var pidfd int
	var peerErr error
	if err := raw.Control(func(fd uintptr) { pidfd, peerErr = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_PEERPIDFD) }); err != nil {
		return nil, fmt.Errorf("peer: %w", err)
	}
	if errors.Is(peerErr, unix.ENOPROTOOPT) { // before Linux 6.5
		pidfd, peerErr = unix.PidfdOpen(int(pid), 0)
	}
	switch {
	case peerErr == nil:
		return os.NewFile(uintptr(pidfd), "pidfd"), nil
	case errors.Is(peerErr, unix.ENOSYS), errors.Is(peerErr, unix.EPERM): // before Linux 5.3, or a seccomp filter
		return nil, nil //nolint:nilnil // none is no error
	default: // the kernel has several for one that has been waited for
		return nil, errEndedPeer
	}
}

// dialedProcess is the process that connected over TCP: the one that has the other end open. It is
// looked up when it is needed.
func (s *Server) dialedProcess(conn net.Conn) *Process {
	return &Process{find: func(ctx context.Context) (host.View, error) {
		select {
		case s.lookups <- struct{}{}: // each reads the table of all open files
			defer func() { <-s.lookups }()
		case <-ctx.Done():
			return host.View{}, ctx.Err() //nolint:wrapcheck // says all
		}
		other, err := netip.ParseAddrPort(conn.RemoteAddr().String())
		own, ownErr := netip.ParseAddrPort(conn.LocalAddr().String())
		if err := errors.Join(err, ownErr); err != nil {
			return host.View{}, fmt.Errorf("the caller's address: %w", err)
		}
		socket, err := sockdiag.Find(other, own)
		if err != nil {
			return host.View{}, fmt.Errorf("the caller's end of the connection: %w", err)
		}
		pid, err := sockdiag.Holder(ctx, s.options.Proc, socket.Inode)
		if err != nil {
			return host.View{}, fmt.Errorf("no process that this agent sees has the caller's end of the connection (nor was a start_time given that proves it): %w", err)
		}
		view, err := s.options.View(pid)
		if err != nil {
			return host.View{}, fmt.Errorf("the caller's process: %w", err)
		}
		return view, nil
	}}
}
