package agent

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

// peerProcess is the process at the other end of a connection, which says in whose numbers a caller's pids are: a container that has the
// agent's socket knows its processes by others.
type peerProcess struct {
	find func(ctx context.Context) (host.View, error)

	mu   sync.Mutex
	view *host.View // guarded by mu; nil: it has not been found yet
}

type peerProcessKey struct{}

// peerProcessOf returns the process at the other end of the connection that a call came over; nil: it came over none.
func peerProcessOf(ctx context.Context) *peerProcess {
	p, _ := ctx.Value(peerProcessKey{}).(*peerProcess)
	return p
}

// seen returns how the peer sees processes, or a refusal which says that the agent cannot tell and what to do.
func (p *peerProcess) seen(ctx context.Context) (host.View, error) {
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

func (p *peerProcess) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.view != nil {
		_ = p.view.PIDs.Close() // it was only held
	}
}

// known is a process that is known already, or of which it is known why it cannot be.
func knownProcess(view host.View, err error) *peerProcess {
	if err != nil {
		return &peerProcess{find: func(context.Context) (host.View, error) { return host.View{}, err }}
	}
	return &peerProcess{view: &view}
}

var (
	errUnseenPeer = errors.New("the caller is in a pid namespace that this agent does not see")
	errEndedPeer  = errors.New("the process that connected has ended")
)

// connectedProcess is who connected to a Unix socket. It is held while it is looked at, so that its pid is not another's by then.
func connectedProcess(meter Meter, conn *net.UnixConn, pid int32) *peerProcess {
	if pid == 0 {
		return knownProcess(host.View{}, errUnseenPeer)
	}
	held, err := holdPeer(conn, pid)
	if err != nil {
		return knownProcess(host.View{}, err)
	}
	view, err := meter.View(pid)
	if held != nil {
		defer held.Close()
		if unix.PidfdSendSignal(int(held.Fd()), 0, nil, 0) == unix.ESRCH {
			return knownProcess(host.View{}, errors.Join(errEndedPeer, view.PIDs.Close()))
		}
	}
	return knownProcess(view, err)
}

// holdPeer returns a pidfd of who connected; nil: this kernel has none.
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

// dialedProcess is who connected over TCP, looked up once it matters: whoever has the other end open.
func (a *Agent) dialedProcess(conn net.Conn) *peerProcess {
	return &peerProcess{find: func(ctx context.Context) (host.View, error) {
		select {
		case a.lookups <- struct{}{}: // each reads the table of all open files
			defer func() { <-a.lookups }()
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
		pid, err := sockdiag.Holder(ctx, a.deps.Proc, socket.Inode)
		if err != nil {
			return host.View{}, fmt.Errorf("no process that this agent sees has the caller's end of the connection (nor was a start_time given that proves it): %w", err)
		}
		view, err := a.deps.Meter.View(pid)
		if err != nil {
			return host.View{}, fmt.Errorf("the caller's process: %w", err)
		}
		return view, nil
	}}
}

// numberOf is the pid, as the agent knows it, of the process that a caller knows by a pid of its own namespace.
func numberOf(ctx context.Context, namespace *host.PIDNamespace, pid int32) (int32, error) {
	found, err := namespace.Find(ctx, pid)
	switch {
	case errors.Is(err, host.ErrNoProcess):
		return 0, gone(pid, "a process that runs in the caller's pid namespace")
	case err != nil:
		return 0, connect.NewError(connect.CodeInternal, err)
	}
	return found, nil
}

// seesOtherCgroups reports whether the paths by which a caller knows cgroups are not those of this agent, or may not be. What it says of them
// tells nothing then, and is left aside.
func seesOtherCgroups(ctx context.Context) bool {
	view, err := peerProcessOf(ctx).seen(ctx)
	return err != nil || view.OtherCgroups
}
