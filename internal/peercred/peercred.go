// Package peercred asks the kernel who is at the other end of a Unix socket. It does not say the
// user's name or rights.
package peercred

import (
	"fmt"
	"net"

	"golang.org/x/sys/unix"
)

// Of asks the kernel who connected to a Unix socket: the process and the effective user id, as
// they were when it connected. The pid is 0 if this process does not see its pid namespace. For a
// connection that this process has dialed, it is the listener's.
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
