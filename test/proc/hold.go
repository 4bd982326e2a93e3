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

// Held is a process that this one knows by a file descriptor instead of its number alone. The
// kernel gives the number of a process that has ended to another one, and tests run next to other
// tests: who kills by number may hit theirs.
type Held struct {
	// PID is its number. It may be another's once it has ended.
	PID int

	fd int // -1: it had ended before it was held
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

// HoldText is Hold for a process whose number was printed.
func HoldText(tb testing.TB, text string) *Held {
	tb.Helper()
	pid, err := strconv.Atoi(strings.TrimSpace(text))
	if err != nil {
		tb.Fatalf("hold a process: %v", err)
	}
	return Hold(tb, pid)
}

// KillAtEnd holds a process and has the end of the test kill it.
func KillAtEnd(tb testing.TB, pid int) *Held {
	tb.Helper()
	h := Hold(tb, pid)
	tb.Cleanup(func() { _ = h.Signal(unix.SIGKILL) })
	return h
}

// KillGroupAtEnd holds the leader of a process group, and has the end of the test kill the group.
func KillGroupAtEnd(tb testing.TB, leader int) *Held {
	tb.Helper()
	h := Hold(tb, leader)
	tb.Cleanup(func() { _ = h.SignalGroup(unix.SIGKILL) })
	return h
}

// StartGroup starts a command as the leader of a session, and so of a process group. The end of
// the test kills the group and waits for the command; the test may have waited for it before.
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

// Signal sends a signal to the process. The error is unix.ESRCH if it has ended and was waited
// for; a zombie takes every signal.
func (h *Held) Signal(s syscall.Signal) error {
	if h.fd < 0 {
		return unix.ESRCH
	}
	return unix.PidfdSendSignal(h.fd, s, nil, 0)
}

// There reports whether the process is there, as a zombie too.
func (h *Held) There() bool { return h.Signal(0) == nil }

// SignalGroup sends a signal to the process group that the process leads or led. The error is
// unix.ESRCH if the group is empty.
//
// Before Linux 6.9 a group has its number alone. It is then signaled by that as long as the leader
// is there, because its number is nobody else's so long, and not afterwards.
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
