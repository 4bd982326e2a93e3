package process

import (
	"context"
	"errors"
	"os/exec"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/testing/protocmp"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

func TestWaitReturnsWhenTheProcessEnds(t *testing.T) {
	for name, o := range openers(t) {
		t.Run(name, func(t *testing.T) {
			c := start(t, o, "sleep 0.1")
			h, err := o.Open(c.ref)
			if err != nil {
				t.Fatal(err)
			}
			defer h.Close()
			if err := h.Wait(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestKilledProcessEndsTheWaitAndTellsHow(t *testing.T) {
	for name, o := range openers(t) {
		t.Run(name, func(t *testing.T) {
			c := start(t, o, "exec sleep 1000")
			h, err := o.Open(c.ref)
			if err != nil {
				t.Fatal(err)
			}
			defer h.Close()
			if err := h.Signal(syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			if err := h.Wait(t.Context()); err != nil {
				t.Fatal(err)
			}
			// It is a zombie: root sees how it ended, others only a signal.
			if diff := cmp.Diff(&bursarv1.ExitStatus{Signal: 9}, h.ExitStatus(), protocmp.Transform()); diff != "" {
				t.Error(diff)
			}
			_ = c.Wait()
			if err := h.Signal(syscall.SIGTERM); !errors.Is(err, ErrEnded) {
				t.Errorf("signal to a process that has ended: %v", err)
			}
			// Kernels before 6.15 tell only the parent.
			if got := h.ExitStatus(); got != nil {
				if diff := cmp.Diff(&bursarv1.ExitStatus{Signal: 9}, got, protocmp.Transform()); diff != "" {
					t.Error(diff)
				}
			}
		})
	}
}

func TestExitCodeIsToldWhereTheKernelDoes(t *testing.T) {
	o := openers(t)["pidfd"]
	c := start(t, o, "sleep 0.2; exit 3")
	h, err := o.Open(c.ref)
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	if got := h.ExitStatus(); got != nil {
		t.Errorf("of a process that runs: %v", got)
	}
	_ = c.Wait()
	if got := h.ExitStatus(); got != nil && got.GetCode() != 3 {
		t.Errorf("exit status %v, want code 3", got)
	}
}

func TestWaitEndsWithItsContextAndCanBeBegunAgain(t *testing.T) {
	for name, o := range openers(t) {
		t.Run(name, func(t *testing.T) {
			c := start(t, o, "exec sleep 1000")
			h, err := o.Open(c.ref)
			if err != nil {
				t.Fatal(err)
			}
			defer h.Close()
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			for range 2 {
				if err := h.Wait(ctx); !errors.Is(err, context.Canceled) {
					t.Errorf("wait with a context that has ended: %v", err)
				}
			}
			_ = h.Signal(syscall.SIGKILL)
			if err := h.Wait(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestCloseEndsTheWait(t *testing.T) {
	for name, o := range openers(t) {
		t.Run(name, func(t *testing.T) {
			c := start(t, o, "exec sleep 1000")
			h, err := o.Open(c.ref)
			if err != nil {
				t.Fatal(err)
			}
			done := make(chan error)
			go func() { done <- h.Wait(context.Background()) }()
			h.Close()
			h.Close()
			if err := <-done; err == nil {
				t.Error("the wait ended as if the process had")
			}
		})
	}
}

func TestPidOfAnotherProcessIsNotOpened(t *testing.T) {
	for name, o := range openers(t) {
		t.Run(name, func(t *testing.T) {
			c := start(t, o, "exec sleep 1000")
			for _, ref := range []Ref{{c.ref.PID, c.ref.StartTime + 1}, {c.ref.PID, c.ref.StartTime - 1}, {1 << 30, 5}} {
				if _, err := o.Open(ref); !errors.Is(err, ErrEnded) {
					t.Errorf("%+v: %v, want ErrEnded", ref, err)
				}
			}
			for _, pid := range []int32{-1, 0, 1} {
				if _, err := o.Open(Ref{PID: pid}); err == nil || errors.Is(err, ErrEnded) {
					t.Errorf("pid %d: %v, want a refusal", pid, err)
				}
			}
		})
	}
}

func TestZombieHasEnded(t *testing.T) {
	for name, o := range openers(t) {
		t.Run(name, func(t *testing.T) {
			cmd := exec.Command("true")
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			ref := processOf(t, o, cmd.Process.Pid)
			var info unix.Siginfo // it has ended, and its parent has not waited for it
			if err := unix.Waitid(unix.P_PID, cmd.Process.Pid, &info, unix.WEXITED|unix.WNOWAIT, nil); err != nil {
				t.Fatal(err)
			}
			if _, err := o.Open(ref); !errors.Is(err, ErrEnded) {
				t.Errorf("%v, want ErrEnded", err)
			}
			_ = cmd.Wait()
		})
	}
}

// Who touches all of them does not keep others from closing one.
func TestTouchOfAClosedHandleChangesNothing(t *testing.T) {
	for name, o := range openers(t) {
		t.Run(name, func(t *testing.T) {
			c := start(t, o, "exec sleep 1000")
			h, err := o.Open(c.ref)
			if err != nil {
				t.Fatal(err)
			}
			h.Close()
			before := h.LastAlive()
			passed(before)
			if h.Touch(); h.LastAlive() != before {
				t.Errorf("last alive %d, want %d", h.LastAlive(), before)
			}
		})
	}
}
