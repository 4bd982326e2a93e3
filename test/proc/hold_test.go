package proc

import (
	"errors"
	"os"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"
)

func TestAHeldProcessIsSignaledUntilItWasWaitedFor(t *testing.T) {
	cmd := shell("exec sleep 1000")
	h := StartGroup(t, cmd)
	if h.PID != cmd.Process.Pid || !h.There() {
		t.Fatalf("process %d is held as %d; there: %v", cmd.Process.Pid, h.PID, h.There())
	}
	if err := h.Signal(unix.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil || h.There() {
		t.Errorf("%v; there: %v", err, h.There())
	}
	if err := h.Signal(unix.SIGKILL); !errors.Is(err, unix.ESRCH) {
		t.Errorf("after its end: %v, want ESRCH", err)
	}
	if err := h.SignalGroup(unix.SIGKILL); !errors.Is(err, unix.ESRCH) {
		t.Errorf("its group, which is empty: %v, want ESRCH", err)
	}
	late := Hold(t, cmd.Process.Pid)
	if err := errors.Join(late.Signal(0), late.SignalGroup(0)); late.There() || !errors.Is(err, unix.ESRCH) {
		t.Errorf("held after its end: there: %v, %v", late.There(), err)
	}
}

func TestAGroupIsKilledAtTheEnd(t *testing.T) {
	var leader, member *Held
	t.Run("starts a group", func(t *testing.T) {
		cmd := shell("sleep 1000 & echo $!; wait")
		cmd.Stdout = nil
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		StartGroup(t, cmd)
		text := make([]byte, 32)
		n, err := out.Read(text)
		if err != nil {
			t.Fatal(err)
		}
		leader = &Held{PID: cmd.Process.Pid, fd: openPidfd(t, cmd.Process.Pid)}
		held := HoldText(t, string(text[:n]))
		member = &Held{PID: held.PID, fd: openPidfd(t, held.PID)}
		if !member.There() {
			t.Error("the member is not there")
		}
	})
	Until(t, patience, pollEvery, "the group is gone", func() bool { return !leader.There() && !Alive(member.PID) })
}

// openPidfd opens a descriptor that is not closed with the test.
func openPidfd(t *testing.T, pid int) int {
	t.Helper()
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		t.Fatal(err)
	}
	return fd
}

func TestOnlyAProcessOfATestIsHeld(t *testing.T) {
	for _, pid := range []int{-5, 0, 1} {
		if said := complaints(t, func(tb testing.TB) { Hold(tb, pid) }); said == "" {
			t.Errorf("process %d was held", pid)
		}
	}
	if said := complaints(t, func(tb testing.TB) { HoldText(tb, "no number") }); said == "" {
		t.Error("a text that is no number was held")
	}
	if h := HoldText(t, strconv.Itoa(os.Getpid())+"\n"); !h.There() {
		t.Error("this process is not there")
	}
}
