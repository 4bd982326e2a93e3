package postgres

import (
	"fmt"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// limitSilence makes the kernel give up a connection whose packets are not acknowledged.
func limitSilence(network, _ string, connection syscall.RawConn) error {
	if !strings.HasPrefix(network, "tcp") {
		return nil
	}
	var failed error
	err := connection.Control(func(fd uintptr) {
		failed = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(silence.Milliseconds()))
	})
	if err == nil {
		err = failed
	}
	if err != nil {
		return fmt.Errorf("TCP_USER_TIMEOUT: %w", err)
	}
	return nil
}
