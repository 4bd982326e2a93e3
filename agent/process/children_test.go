package process

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bursar/bursar/providers/host"
)

const proc = "/proc"

// openers are the ways to hold on to a process: with pidfds, and as on an older kernel without.
func openers(t *testing.T) map[string]*Opener {
	t.Helper()
	meter, err := host.NewMeter(host.Options{})
	if err != nil {
		t.Fatal(err)
	}
	older := NewOpener(meter, proc)
	older.pidfdOpen = func(int, int) (int, error) { return -1, unix.ENOSYS }
	return map[string]*Opener{"pidfd": NewOpener(meter, proc), "older kernel": older}
}

// child is a shell that is the root of an engine.
type child struct {
	*exec.Cmd

	ref Ref
	in  io.Closer
	out *bufio.Reader
}

// start runs a script. It is killed with the test, with everything in its session.
func start(t *testing.T, o *Opener, script string) *child {
	t.Helper()
	return startWith(t, o, &syscall.SysProcAttr{Setsid: true}, script)
}

func startWith(t *testing.T, o *Opener, attributes *syscall.SysProcAttr, script string) *child {
	t.Helper()
	cmd := exec.Command("sh", "-c", script)
	cmd.SysProcAttr = attributes
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait()
	})
	return &child{Cmd: cmd, ref: processOf(t, o, cmd.Process.Pid), in: in, out: bufio.NewReader(out)}
}

func processOf(t *testing.T, o *Opener, pid int) Ref {
	t.Helper()
	identity, err := o.identifier.Identify(int32(pid))
	if err != nil {
		t.Fatal(err)
	}
	return Ref{PID: int32(pid), StartTime: identity.StartTime}
}

// says reads a line of the script's output.
func (c *child) says(t *testing.T) string {
	t.Helper()
	line, err := c.out.ReadString('\n')
	if err != nil {
		t.Fatalf("reading the child's output: %v", err)
	}
	return strings.TrimSpace(line)
}

// saysPID reads the pid of a process that the script has started.
func (c *child) saysPID(t *testing.T, o *Opener) Ref {
	t.Helper()
	pid, err := strconv.Atoi(c.says(t))
	if err != nil {
		t.Fatal(err)
	}
	return processOf(t, o, pid)
}

// gone waits until a process has ended, for a generous while.
func gone(t *testing.T, o *Opener, ref Ref) {
	t.Helper()
	h, err := o.Open(ref)
	if errors.Is(err, ErrEnded) {
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := h.Wait(ctx); err != nil {
		t.Fatalf("process %d is still there: %v", ref.PID, err)
	}
}

func running(t *testing.T, o *Opener, ref Ref) bool {
	t.Helper()
	h, err := o.Open(ref)
	if errors.Is(err, ErrEnded) {
		return false
	}
	if err != nil {
		t.Fatal(err)
	}
	h.Close()
	return true
}

func self(t *testing.T, o *Opener) Ref {
	t.Helper()
	return processOf(t, o, os.Getpid())
}
