package socket

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"sync"
	"time"

	"connectrpc.com/connect"
	"golang.org/x/sys/unix"

	"github.com/bursar/bursar/internal/admission"
	"github.com/bursar/bursar/internal/sockdiag"
	"github.com/bursar/bursar/providers/host"
)

// Process is the process at the other end of a connection. It shows the pid namespace of the
// caller's pids: a container with the agent's socket knows its processes by other numbers.
type Process struct {
	find func(ctx context.Context) (host.View, error)
	// identify returns the identity of the process; nil: not known.
	identify func() (host.Identity, error)

	mu     sync.Mutex
	view   *host.View // guarded by mu; nil: it has not been found yet
	closed bool       // guarded by mu; the connection is
}

// View returns how a process sees others. host.ErrNoProcess: no process has the pid.
type View func(pid int32) (host.View, error)

// Identify returns the process with a pid. host.ErrNoProcess: there is none.
type Identify func(pid int32) (host.Identity, error)

type processKey struct{}

// WithProcess returns the context of a call by the process.
func WithProcess(ctx context.Context, p *Process) context.Context {
	return context.WithValue(ctx, processKey{}, p)
}

// ProcessOf returns the process at the other end of a call's connection; nil if there is no
// connection.
func ProcessOf(ctx context.Context) *Process {
	p, _ := ctx.Value(processKey{}).(*Process)
	return p
}

// Seen returns how the peer sees processes, or a refusal with advice if the agent cannot tell.
func (p *Process) Seen(ctx context.Context) (host.View, error) {
	if p == nil {
		return host.View{}, nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.view != nil {
		return *p.view, nil
	}
	view, err := host.View{}, net.ErrClosed
	if !p.closed {
		view, err = p.find(ctx)
	}
	if errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) {
		const again = time.Second
		return view, admission.Refusal(fmt.Errorf("process.pid: the agent cannot look at the process that calls: %w: want a larger LimitNOFILE= of its unit, or ulimit -n: try again in %s", err, again), again)
	}
	if err != nil {
		return view, connect.NewError(connect.CodeFailedPrecondition, fmt.Errorf("process.pid: the agent cannot know the process: %w: want an agent in the host's pid "+
			"namespace (docker run --pid=host) and a caller that waits for its answer, an engine that the agent starts (bursar run --detach), or one with an address and a lease", err))
	}
	p.view = &view
	return view, nil
}

// Identity returns the identity of the process on this machine. It must be called while the call is
// in flight: once the process and its connection have ended, its identity is lost. The error says
// why it is not known.
func (p *Process) Identity() (host.Identity, error) {
	if p == nil || p.identify == nil {
		return host.Identity{}, errUnseenPeer
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return host.Identity{}, net.ErrClosed
	}
	return p.identify()
}

func (p *Process) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	if p.view != nil {
		_ = p.view.PIDs.Close() // it was only read
	}
}

var (
	errUnseenPeer = errors.New("the caller is in a pid namespace that this agent does not see")
	errEndedPeer  = errors.New("the process that connected has ended")
)

// UnseenProcess returns a process in a pid namespace that this process does not see.
func UnseenProcess() *Process {
	return &Process{find: func(context.Context) (host.View, error) { return host.View{}, errUnseenPeer }}
}

// connectedProcess returns the process that connected to a Unix socket, and was accepted so many
// ticks after the boot. The look-up happens when it is needed: most connections never need it. By
// then another process may have its pid, so the look-up holds the process that connected by a
// pidfd.
func (s *Server) connectedProcess(conn *net.UnixConn, pid int32, accepted uint64) *Process {
	if pid == 0 {
		return UnseenProcess()
	}
	return &Process{identify: func() (host.Identity, error) {
		held, _, err := holdPeer(conn, pid)
		if err != nil {
			return host.Identity{}, err
		}
		found, err := s.options.Identify(pid)
		if held != nil {
			defer held.Close()
			if unix.PidfdSendSignal(int(held.Fd()), 0, nil, 0) == unix.ESRCH {
				return host.Identity{}, errEndedPeer
			}
		}
		switch {
		case errors.Is(err, host.ErrNoProcess) || err == nil && found.StartTime > accepted:
			return host.Identity{}, errEndedPeer
		case err != nil:
			return host.Identity{}, fmt.Errorf("peer: %w", err)
		}
		return found, nil
	}, find: func(context.Context) (host.View, error) {
		held, sure, err := holdPeer(conn, pid)
		if err != nil {
			return host.View{}, err
		}
		if held != nil {
			defer held.Close()
		}
		seen, err := s.options.View(pid)
		if err != nil {
			return seen, err
		}
		ended := held != nil && unix.PidfdSendSignal(int(held.Fd()), 0, nil, 0) == unix.ESRCH
		if !ended && !sure { // another process may have got its pid before
			ended, err = startedAfter(s.options.Identify, pid, accepted)
		}
		if ended {
			err = errEndedPeer
		}
		if err != nil {
			return host.View{}, errors.Join(err, seen.PIDs.Close())
		}
		return seen, nil
	}}
}

// startedAfter reports whether the process with a pid has started after a moment, in ticks after
// boot. Then the process that had the pid at that moment has ended.
func startedAfter(identify Identify, pid int32, moment uint64) (bool, error) {
	found, err := identify(pid)
	switch {
	case errors.Is(err, host.ErrNoProcess):
		return true, nil
	case err != nil:
		return false, fmt.Errorf("peer: %w", err)
	}
	return found.StartTime > moment, nil
}

// holdPeer returns a pidfd of the process that connected; nil if this kernel has none. sure is
// false if it may belong to another process that has the pid now.
func holdPeer(conn *net.UnixConn, pid int32) (held *os.File, sure bool, err error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil, false, fmt.Errorf("peer: %w", err)
	}
	pidfd, sure := 0, true
	var peerErr error
	if err := raw.Control(func(fd uintptr) { pidfd, peerErr = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_PEERPIDFD) }); err != nil {
		return nil, false, fmt.Errorf("peer: %w", err)
	}
	if errors.Is(peerErr, unix.ENOPROTOOPT) { // before Linux 6.5
		sure = false
		pidfd, peerErr = unix.PidfdOpen(int(pid), 0)
	}
	switch {
	case peerErr == nil:
		return os.NewFile(uintptr(pidfd), "pidfd"), sure, nil
	case errors.Is(peerErr, unix.ENOSYS), errors.Is(peerErr, unix.EPERM):
		// before Linux 5.3, or a seccomp filter
		return nil, false, nil
	case errors.Is(peerErr, unix.EMFILE), errors.Is(peerErr, unix.ENFILE):
		return nil, false, fmt.Errorf("peer: %w", peerErr)
	default: // the kernel has several errors for a process that was waited for
		return nil, false, errEndedPeer
	}
}

// dialedProcess returns the process that connected over TCP: the holder of the other end. The
// look-up happens when it is needed.
func (s *Server) dialedProcess(conn net.Conn) *Process {
	return &Process{find: func(ctx context.Context) (host.View, error) {
		select {
		case s.lookups <- struct{}{}: // each look-up reads the table of all open files
			defer func() { <-s.lookups }()
		case <-ctx.Done():
			return host.View{}, ctx.Err() //nolint:wrapcheck // it is complete
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
