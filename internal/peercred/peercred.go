// Package peercred asks the kernel who is at the other end of a Unix socket. It does not say who that is by name, nor what they may.
package peercred

import (
	"fmt"
	"net"

	"golang.org/x/sys/unix"
)

// Of asks the kernel who connected to a Unix socket: the process at the time of the connect, as of which the
// kernel remembers the effective user id. Its pid is 0 where this process does not see its pid namespace. Of a connection that this
// process has dialed it is who listens.
func Of(conn *net.UnixConn) (*unix.Ucred, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil, fmt.Errorf("peer credentials: %w", err)
	}
	var credentials *unix.Ucred
	var peerErr error
	if err := raw.Control(func(fd uintptr) {
		credentials, peerErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); err != nil {
		return nil, fmt.Errorf("peer credentials: %w", err)
	}
	if peerErr != nil {
		return nil, fmt.Errorf("peer credentials: %w", peerErr)
	}
	return credentials, nil
}
