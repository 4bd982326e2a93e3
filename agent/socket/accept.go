package socket

import (
	"errors"
	"net"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/bursar/bursar/internal/admission"
	"github.com/bursar/bursar/internal/peercred"
	"github.com/bursar/bursar/providers/host"
)

// peerListener accepts connections whose user the kernel names.
type peerListener struct {
	net.Listener

	server *Server
}

// peerConn is a connection of a user. The user's name and rights are looked up for every request,
// because they may change while the connection lives.
type peerConn struct {
	*admission.Connection

	uid     *uint32 // nil: it is anybody's, over TCP
	process *Process
}

// Close also closes what is known of the peer's process.
func (c *peerConn) Close() error {
	c.process.close()
	return c.Connection.Close() //nolint:wrapcheck // it is the connection's
}

// Accept returns the next connection. One whose caller cannot be known, has too many, or opens them
// too fast, is closed and passed over. All callers wait for this loop, so it takes a few
// microseconds for each connection of any user: it looks up no process, and no name of a user who
// opens connections too fast.
func (l *peerListener) Accept() (net.Conn, error) {
	for {
		conn, peer, err := l.next()
		if err != nil {
			return nil, err
		}
		if conn == nil {
			continue
		}
		accepted := host.TicksSinceBoot()
		// Accept must not wait for a directory of users.
		counted := l.server.connections.Admit(conn, l.server.Peers.withoutLookup(peer.Uid).Counted())
		if counted == nil {
			_ = conn.Close() // nothing was sent
			continue
		}
		return &peerConn{Connection: counted, uid: &peer.Uid, process: l.server.connectedProcess(conn, peer.Pid, accepted)}, nil
	}
}

// next takes the next connection and says who has opened it; nil: it was closed at once. While
// connections wait, they are taken without the runtime's poller, which costs several times as much
// as the rest. A user who opens them as fast as possible then does not fill the queue for others.
func (l *peerListener) next() (*net.UnixConn, *unix.Ucred, error) {
	if listener, is := l.Listener.(syscall.Conn); is {
		switch fd, err := acceptWaiting(listener); {
		case err == nil:
			return l.admit(fd)
		case !errors.Is(err, unix.EAGAIN):
			return nil, nil, &net.OpError{Op: "accept", Net: "unix", Addr: l.Addr(), Err: err}
		}
	}
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, nil, err //nolint:wrapcheck // the server decides on it
	}
	unixConn, isUnix := conn.(*net.UnixConn)
	if !isUnix {
		return nil, nil, errors.Join(errors.New("agent: a connection that is not a Unix socket's"), conn.Close())
	}
	peer, err := peercred.Of(unixConn)
	if !l.mayConnect(peer, err) {
		_ = conn.Close() // nothing was sent
		return nil, nil, nil
	}
	return unixConn, peer, nil
}

// acceptWaiting takes a connection that waits. The error is unix.EAGAIN if none does.
func acceptWaiting(listener syscall.Conn) (fd int, err error) {
	raw, err := listener.SyscallConn()
	if err != nil {
		return 0, err //nolint:wrapcheck // the caller says what it was for
	}
	var acceptErr error
	if err := raw.Control(func(on uintptr) {
		for {
			fd, _, acceptErr = unix.Accept4(int(on), unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
			if acceptErr != unix.EINTR && acceptErr != unix.ECONNABORTED {
				return
			}
		}
	}); err != nil {
		return 0, err //nolint:wrapcheck // the caller says what it was for
	}
	return fd, os.NewSyscallError("accept4", acceptErr)
}

// admit makes a connection of a descriptor, or closes it.
func (l *peerListener) admit(fd int) (*net.UnixConn, *unix.Ucred, error) {
	peer, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if !l.mayConnect(peer, err) {
		_ = unix.Close(fd) // nothing was sent
		return nil, nil, nil
	}
	file := os.NewFile(uintptr(fd), "connection")
	conn, err := net.FileConn(file)
	_ = file.Close() // the connection has a descriptor of its own
	if err != nil {
		return nil, nil, &net.OpError{Op: "accept", Net: "unix", Addr: l.Addr(), Err: err}
	}
	unixConn, isUnix := conn.(*net.UnixConn)
	if !isUnix {
		return nil, nil, errors.Join(errors.New("agent: a connection that is not a Unix socket's"), conn.Close())
	}
	return unixConn, peer, nil
}

// mayConnect decides on a connection by the user that the kernel names, or an error.
func (l *peerListener) mayConnect(peer *unix.Ucred, err error) bool {
	if err != nil {
		l.server.options.Log.Warn("a connection was refused", "error", err)
		return false
	}
	return l.server.Admitted.Connect(l.server.Peers.connecting(peer.Uid))
}

// loopbackListener bounds the connections over TCP.
type loopbackListener struct {
	net.Listener

	server *Server
}

// Accept returns the next connection. If there are too many, it is closed and passed over.
func (l *loopbackListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err //nolint:wrapcheck // the server decides on it
		}
		if counted := l.server.connections.Admit(conn, l.server.local.Counted()); counted != nil {
			return &peerConn{Connection: counted, process: l.server.dialedProcess(conn)}, nil
		}
		_ = conn.Close() // nothing was sent
	}
}
