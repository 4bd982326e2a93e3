package socket

import (
	"errors"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bursar/bursar/internal/admission"
	"github.com/bursar/bursar/internal/peercred"
	"github.com/bursar/bursar/providers/host"
)

// peerListener accepts connections with the user that the kernel reports. The connections of a user
// who opens them somewhat too fast are parked for a while.
type peerListener struct {
	net.Listener

	server   *Server
	begin    sync.Once
	accepted chan accepted // one element
	closed   chan struct{}
	close    sync.Once
	parked   atomic.Int64
}

// accepted is a result of Accept.
type accepted struct {
	conn net.Conn
	err  error
}

func newPeerListener(socket net.Listener, server *Server) *peerListener {
	return &peerListener{Listener: socket, server: server, accepted: make(chan accepted, 1), closed: make(chan struct{})}
}

// Accept returns the next connection.
func (l *peerListener) Accept() (net.Conn, error) {
	l.begin.Do(func() { go l.acceptAll() })
	select {
	case next := <-l.accepted:
		return next.conn, next.err
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close ends Accept. Parked connections are closed at the end of their time.
func (l *peerListener) Close() error {
	l.close.Do(func() {
		close(l.closed)
		select {
		case next := <-l.accepted:
			if next.conn != nil {
				_ = next.conn.Close() // nothing was sent
			}
		default:
		}
	})
	return l.Listener.Close() //nolint:wrapcheck // it is the listener's
}

// pass makes Accept return a connection or an error. It returns false if the listener is closed.
func (l *peerListener) pass(next accepted) bool {
	select {
	case l.accepted <- next:
		return true
	case <-l.closed:
		if next.conn != nil {
			_ = next.conn.Close() // nothing was sent
		}
		return false
	}
}

// peerConn is a connection of a user. Every request looks up the user's name and rights, because
// these may change while the connection lives.
type peerConn struct {
	*admission.Connection

	peer    *unix.Ucred // nil over TCP, where the user is unknown
	local   *Caller     // over TCP
	process *Process
}

// Close also closes the Process of the peer.
func (c *peerConn) Close() error {
	c.process.close()
	return c.Connection.Close() //nolint:wrapcheck // it is the connection's
}

// acceptAll takes connections until the listener is closed. It closes and skips a connection whose
// caller is unknown, has too many, or opens them far too fast. All callers wait for this loop, so
// it takes only a few microseconds for each connection of any user: it looks up no process, and no
// name of a user who opens connections too fast.
func (l *peerListener) acceptAll() {
	for {
		err := l.next()
		if err != nil && (!l.pass(accepted{err: err}) || errors.Is(err, net.ErrClosed)) {
			return
		}
	}
}

// next takes the next connection. While connections wait, it takes them without the runtime's
// poller, which costs several times as much as the rest. So a user who opens them as fast as
// possible does not fill the queue for others.
func (l *peerListener) next() error {
	if listener, is := l.Listener.(syscall.Conn); is {
		switch fd, err := acceptWaiting(listener); {
		case err == nil:
			l.admit(descriptor(fd))
			return nil
		case !errors.Is(err, unix.EAGAIN):
			return &net.OpError{Op: "accept", Net: "unix", Addr: l.Addr(), Err: err}
		}
	}
	conn, err := l.Listener.Accept()
	if err != nil {
		return err //nolint:wrapcheck // the server decides on it
	}
	unixConn, isUnix := conn.(*net.UnixConn)
	if !isUnix {
		return errors.Join(errors.New("agent: a connection that is not a Unix socket's"), conn.Close())
	}
	l.admit(opened{unixConn})
	return nil
}

// acceptWaiting takes a waiting connection. The error is unix.EAGAIN if there is none.
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

const (
	// parkTime is how long a connection of a user who opens them too fast may wait for its turn. A
	// connection that would wait longer is closed.
	parkTime = 500 * time.Millisecond
	// maxParked bounds the parked connections of all users: each takes only a descriptor.
	maxParked = 1024
)

// incoming is an accepted connection from which nothing was read.
type incoming interface {
	// peer returns the credentials of the process that opened it, from the kernel.
	peer() (*unix.Ucred, error)
	// open converts it to a connection, or closes it.
	open() (*net.UnixConn, error)
	close()
}

// descriptor is a connection that the runtime's poller does not know.
type descriptor int

func (d descriptor) peer() (*unix.Ucred, error) {
	return unix.GetsockoptUcred(int(d), unix.SOL_SOCKET, unix.SO_PEERCRED) //nolint:wrapcheck // the caller says what it was for
}

func (d descriptor) open() (*net.UnixConn, error) {
	file := os.NewFile(uintptr(d), "connection")
	conn, err := net.FileConn(file)
	_ = file.Close() // the connection has a descriptor of its own
	if err != nil {
		return nil, err //nolint:wrapcheck // the caller says what it was for
	}
	unixConn, isUnix := conn.(*net.UnixConn)
	if !isUnix {
		return nil, errors.Join(errors.New("a connection that is not a Unix socket's"), conn.Close())
	}
	return unixConn, nil
}

func (d descriptor) close() { _ = unix.Close(int(d)) } // nothing was sent

// opened is a connection that the runtime's poller knows.
type opened struct{ *net.UnixConn }

func (o opened) peer() (*unix.Ucred, error)   { return peercred.Of(o.UnixConn) }
func (o opened) open() (*net.UnixConn, error) { return o.UnixConn, nil }
func (o opened) close()                       { _ = o.Close() } // nothing was sent

// admit passes a connection on, at once or later, or closes it.
func (l *peerListener) admit(conn incoming) {
	peer, err := conn.peer()
	if err != nil {
		l.server.options.Log.Warn("a connection was refused", "error", err)
		conn.close()
		return
	}
	most := parkTime
	if l.parked.Load() >= maxParked {
		most = 0
	}
	at := host.TicksSinceBoot()
	switch after, ok := l.server.Admitted.Connect(l.server.Peers.connecting(peer.Uid), most); {
	case !ok:
		conn.close()
	case after == 0:
		l.take(conn, peer, at)
	default:
		l.parked.Add(1)
		time.AfterFunc(after, func() {
			defer l.parked.Add(-1)
			l.take(conn, peer, at)
		})
	}
}

// take makes Accept return a connection that was accepted at at, in ticks after boot, unless its
// user has too many.
func (l *peerListener) take(conn incoming, peer *unix.Ucred, at uint64) {
	unixConn, err := conn.open()
	if err != nil {
		l.pass(accepted{err: &net.OpError{Op: "accept", Net: "unix", Addr: l.Addr(), Err: err}})
		return
	}
	// Accept must not wait for a directory of users.
	counted := l.server.connections.Admit(unixConn, l.server.Peers.withoutLookup(peer.Uid).Counted())
	if counted == nil {
		_ = unixConn.Close() // nothing was sent
		return
	}
	l.pass(accepted{conn: &peerConn{Connection: counted, peer: peer, process: l.server.connectedProcess(unixConn, peer.Pid, at)}})
}

// loopbackListener bounds the connections over TCP.
type loopbackListener struct {
	net.Listener

	server *Server
}

// Accept returns the next connection. It closes and skips connections of a caller with too many.
func (l *loopbackListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err //nolint:wrapcheck // the server decides on it
		}
		caller := l.server.Peers.dialed(l.server.local, conn)
		if counted := l.server.connections.Admit(conn, caller.Counted()); counted != nil {
			return &peerConn{Connection: counted, local: caller, process: l.server.dialedProcess(conn)}, nil
		}
		_ = conn.Close() // nothing was sent
	}
}
