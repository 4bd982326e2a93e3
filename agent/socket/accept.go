package socket

import (
	"errors"
	"net"

	"github.com/bursar/bursar/internal/admission"
	"github.com/bursar/bursar/internal/peercred"
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

// Accept returns the next connection. One whose caller cannot be known, or has too many, is closed
// and passed over.
func (l *peerListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err //nolint:wrapcheck // the server decides on it
		}
		unixConn, isUnix := conn.(*net.UnixConn)
		if !isUnix {
			return nil, errors.Join(errors.New("agent: a connection that is not a Unix socket's"), conn.Close())
		}
		peer, err := peercred.Of(unixConn)
		if err != nil {
			l.server.options.Log.Warn("a connection was refused", "error", err)
			_ = conn.Close() // nothing was sent
			continue
		}
		// Accept must not wait for a directory of users.
		counted := l.server.connections.Admit(conn, l.server.Peers.withoutLookup(peer.Uid).Counted())
		if counted == nil {
			_ = conn.Close() // nothing was sent
			continue
		}
		return &peerConn{Connection: counted, uid: &peer.Uid, process: connectedProcess(l.server.options.View, unixConn, peer.Pid)}, nil
	}
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
