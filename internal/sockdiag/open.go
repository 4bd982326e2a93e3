package sockdiag

import (
	"errors"
	"fmt"
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// StillOpen refuses a connection that its peer has closed: another user may have the port by now,
// and the lookup may have found that user's socket. While this end is open, the kernel makes no
// other connection with the same two ends.
func StillOpen(conn net.Conn) error {
	for {
		around, ok := conn.(interface{ NetConn() net.Conn })
		if !ok {
			break
		}
		conn = around.NetConn()
	}
	if conn == nil {
		return nil // a test's request without a connection
	}
	tcp, ok := conn.(syscall.Conn)
	if !ok {
		return fmt.Errorf("its state: %T is no socket", conn)
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return fmt.Errorf("its state: %w", err)
	}
	var info *unix.TCPInfo
	var stateErr error
	if err := raw.Control(func(fd uintptr) {
		info, stateErr = unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
	}); err != nil {
		return fmt.Errorf("its state: %w", err)
	}
	if stateErr != nil {
		return fmt.Errorf("its state: %w", stateErr)
	}
	if info.State != established {
		return errors.New("its peer has closed it")
	}
	return nil
}
