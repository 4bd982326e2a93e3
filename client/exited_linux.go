package client

import (
	"errors"

	"golang.org/x/sys/unix"
)

// exited reports whether a child has ended, and does not reap it.
func exited(pid int) bool {
	var info unix.Siginfo
	err := unix.Waitid(unix.P_PID, pid, &info, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil)
	return err == nil && info.Signo != 0 // 0: nothing to report
}

// awaitEnd returns when a child has ended, and does not reap it.
func awaitEnd(pid int) {
	for errors.Is(unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil), unix.EINTR) {
	}
}
