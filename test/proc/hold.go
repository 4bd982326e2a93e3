package proc

import (
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// Held is a process that is identified by a file descriptor instead of only its pid. The kernel
// reuses the pid of an ended process, and tests run next to other tests: a kill by pid may hit one
// of theirs.
type Held struct {
	// PID is its pid. After its end another process may have it.
	PID int

	fd int // -1: it had ended before Hold
}

// Hold holds a process until the end of the test. It may have ended.
func Hold(tb testing.TB, pid int) *Held {
	tb.Helper()
	if pid <= 1 {
		tb.Fatalf("hold process %d: want one that a test has started", pid)
	}
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return &Held{PID: pid, fd: -1}
	}
	if err != nil {
		tb.Fatalf("hold process %d: %v", pid, err)
	}
	tb.Cleanup(func() { _ = unix.Close(fd) })
	return &Held{PID: pid, fd: fd}
}

// HoldText is Hold for a printed pid.
func HoldText(tb testing.TB, text string) *Held {
	tb.Helper()
	pid, err := strconv.Atoi(strings.TrimSpace(text))
	if err != nil {
		tb.Fatalf("hold a process: %v", err)
	}
	return Hold(tb, pid)
}

// KillAtEnd holds a process, and kills it at the end of the test.
func KillAtEnd(tb testing.TB, pid int) *Held {
	tb.Helper()
	h := Hold(tb, pid)
	tb.Cleanup(func() { _ = h.Signal(unix.SIGKILL) })
	return h
}

// KillGroupAtEnd holds the leader of a process group, and kills the group at the end of the test.
func KillGroupAtEnd(tb testing.TB, leader int) *Held {
	tb.Helper()
	h := Hold(tb, leader)
	tb.Cleanup(func() { _ = h.SignalGroup(unix.SIGKILL) })
	return h
}

// StartGroup starts a command as the leader of a session, and so of a process group. The end of the
// test kills the group and waits for the command, even if the test has already waited for it.
func StartGroup(tb testing.TB, cmd *exec.Cmd) *Held {
	tb.Helper()
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setsid = true
	if err := cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = cmd.Wait() }) // after the kill
	return KillGroupAtEnd(tb, cmd.Process.Pid)
}

// Signal sends a signal to the process. The error is unix.ESRCH if it has been reaped; a zombie
// accepts every signal.
func (h *Held) Signal(s syscall.Signal) error {
	if h.fd < 0 {
		return unix.ESRCH
	}
	return unix.PidfdSendSignal(h.fd, s, nil, 0)
}

// There reports whether the process exists, even as a zombie.
func (h *Held) There() bool { return h.Signal(0) == nil }

// SignalGroup sends a signal to the process group that the process leads or led. The error is
// unix.ESRCH if the group is empty.
//
// Before Linux 6.9 a group can only be signaled by number. SignalGroup does that only while the
// leader exists, because until then the number is not reused.
func (h *Held) SignalGroup(s syscall.Signal) error {
	if h.fd < 0 {
		return unix.ESRCH
	}
	err := unix.PidfdSendSignal(h.fd, s, nil, unix.PIDFD_SIGNAL_PROCESS_GROUP)
	if !errors.Is(err, unix.EINVAL) {
		return err
	}
	if !h.There() {
		return fmt.Errorf("process group %d: %w", h.PID, unix.ESRCH)
	}
	return unix.Kill(-h.PID, s)
}
