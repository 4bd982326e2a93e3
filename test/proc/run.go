package proc

import (
	"bytes"
	"context"
	"errors"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Result is the result of a command.
type Result struct {
	Code           int // see ExitCode; also -1 after the time limit
	Stdout, Stderr string
	Took           time.Duration
}

// Run runs a program to its end. Before that, change may modify the command, for example its
// environment; nil changes nothing. If the program exceeds the time limit, Run makes it abort, so
// that a Go program prints where it hangs; the test then fails, but continues. Run may be called
// from any goroutine.
func Run(tb testing.TB, within time.Duration, change func(*exec.Cmd), program string, args ...string) Result {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), within)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...) //nolint:gosec // whatever the test wants
	if change != nil {
		change(cmd)
	}
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGABRT) }
	cmd.WaitDelay = 5 * time.Second
	began := time.Now()
	err := cmd.Run()
	if ctx.Err() != nil {
		tb.Errorf("%s: not done within %s\n%s", strings.Join(cmd.Args, " "), within, stderr.String())
		return Result{Code: -1}
	}
	return Result{Code: ExitCode(tb, err), Stdout: stdout.String(), Stderr: stderr.String(), Took: time.Since(began)}
}

// Expect ends the test unless the command ended with this code, and fails it for each of these
// texts that the command has not printed.
func (r Result) Expect(tb testing.TB, code int, printed ...string) {
	tb.Helper()
	if r.Code != code {
		tb.Fatalf("exit code %d, want %d\nstdout: %s\nstderr: %s", r.Code, code, r.Stdout, r.Stderr)
	}
	for _, text := range printed {
		if !strings.Contains(r.Stdout+r.Stderr, text) {
			tb.Errorf("does not print %q\nstdout: %s\nstderr: %s", text, r.Stdout, r.Stderr)
		}
	}
}

// ExitCode returns the exit code of a command from the error of its wait. It is -1 if the command
// was not run or a signal ended it; if it was not run, the test fails, too.
func ExitCode(tb testing.TB, err error) int {
	tb.Helper()
	if err == nil {
		return 0
	}
	if exit, ended := errors.AsType[*exec.ExitError](err); ended {
		return exit.ExitCode()
	}
	tb.Error(err)
	return -1
}
