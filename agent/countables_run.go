package agent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bursar/bursar/internal/spelling"
	"github.com/bursar/bursar/resource"
)

const (
	// maxCountOutput is what a command may print, on each of its two outputs, in bytes.
	maxCountOutput = 64 << 10
	// drainTime is how long the output of a command is read after its end: it is in the pipe, but
	// a process that got away may hold the other end open.
	drainTime = time.Second
	// killTime is how long a process that was killed may take to be gone. One that hangs in the
	// kernel, in a driver for example, may never be.
	killTime = 2 * time.Second
	// maxProblem is how much of an error's text is reported, in bytes.
	maxProblem = 256
)

var errTooMuchOutput = fmt.Errorf("printed more than %d bytes", maxCountOutput)

// undeadError says that a command was killed and is still there.
type undeadError struct {
	cause error
	// gone is closed when it has ended.
	gone <-chan struct{}
}

func (e *undeadError) Error() string {
	return e.cause.Error() + ", and hangs in the kernel"
}

func (e *undeadError) Unwrap() error { return e.cause }

// counter runs commands, of countables and of the host's health.
type counter struct {
	// kill ends a process group.
	kill func(group int) error
	// patience is killTime.
	patience time.Duration
}

// run counts with the command of a countable. The error is as that of output.
func (c counter) run(ctx context.Context, of countableSettings) (int64, error) {
	printed, err := c.output(ctx, commandArgs(of.command), of.timeout)
	if err != nil {
		return 0, err
	}
	return parseCount(printed, of.lines)
}

// output runs a command to its end or its timeout and returns its standard output, also if it
// fails. However it ends, all processes of its process group are killed then. The error is an
// *undeadError if that has not helped.
func (c counter) output(ctx context.Context, args []string, timeout time.Duration) ([]byte, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("killed after %s", timeout))
	defer cancel()
	command := exec.Command(args[0], args[1:]...) //nolint:gosec,noctx // it is the configuration's to say, and is killed with its group below
	command.Dir = "/"
	command.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C"}
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	output, err := newOutput()
	if err != nil {
		return nil, err
	}
	defer output.close()
	problems, err := newOutput()
	if err != nil {
		return nil, err
	}
	defer problems.close()
	command.Stdout, command.Stderr = output.write, problems.write
	if err := command.Start(); err != nil {
		return nil, fmt.Errorf("starting it: %w", err)
	}
	output.collect()
	problems.collect()
	err = c.waitAndKill(ctx, command, output, problems)
	output.hurry()
	problems.hurry()
	printed, outputErr := output.wait()
	said, _ := problems.wait() // it only helps to explain
	switch {
	case outputErr != nil:
		return printed, outputErr
	case err != nil:
		return printed, explain(err, said)
	}
	return printed, nil
}

// waitAndKill waits until the command has ended, or should have, and kills what is left of its
// process group.
func (c counter) waitAndKill(ctx context.Context, command *exec.Cmd, outputs ...*output) error {
	pid := command.Process.Pid
	ended, gone := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		// Without reaping it: its number stays its own, so that no other group can have it when
		// the signal is sent.
		for errors.Is(unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil), unix.EINTR) {
		}
	}()
	var cause error
	select {
	case <-ended:
	case <-ctx.Done():
		cause = context.Cause(ctx)
	case <-outputs[0].full:
		cause = errTooMuchOutput
	case <-outputs[1].full:
		cause = errTooMuchOutput
	}
	_ = c.kill(pid) // there may be no process left
	var err error
	go func() {
		defer close(gone)
		<-ended
		err = command.Wait()
	}()
	if cause == nil {
		<-gone
		return err //nolint:wrapcheck // as "exit status 3"
	}
	timer := time.NewTimer(c.patience)
	defer timer.Stop()
	select {
	case <-gone:
		return cause
	case <-timer.C:
		return &undeadError{cause, gone}
	}
}

func killGroup(group int) error {
	return unix.Kill(-group, unix.SIGKILL) //nolint:wrapcheck // nobody reads it
}

// output collects what a process prints.
type output struct {
	read, write *os.File
	// full is closed when it was too much.
	full chan struct{}
	done chan struct{}
	data []byte
	err  error
}

func newOutput() (*output, error) {
	read, write, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("a pipe for its output: %w", err)
	}
	return &output{read: read, write: write, full: make(chan struct{}), done: make(chan struct{})}, nil
}

// collect begins to read. The process must have been started.
func (o *output) collect() {
	_ = o.write.Close() // the process has its own
	go func() {
		defer close(o.done)
		o.data, o.err = io.ReadAll(io.LimitReader(o.read, maxCountOutput+1))
		if len(o.data) > maxCountOutput {
			o.err = errTooMuchOutput
			close(o.full)
		}
	}()
}

// hurry bounds the time of reading: the process has ended.
// hurry bounds the time of what is still read: a pipe has deadlines.
func (o *output) hurry() { _ = o.read.SetReadDeadline(time.Now().Add(drainTime)) }

// wait returns what was printed, after hurry.
func (o *output) wait() ([]byte, error) {
	<-o.done
	if errors.Is(o.err, os.ErrDeadlineExceeded) {
		// A process that got away holds the pipe; what the command itself has printed is here.
		return o.data, nil
	}
	return o.data, o.err
}

// close frees the pipe.
func (o *output) close() {
	_ = o.write.Close()
	_ = o.read.Close()
}

// explain adds the last line that the command has printed on its standard error.
func explain(err error, said []byte) error {
	lines := bytes.Split(bytes.TrimSpace(said), []byte("\n"))
	last := spelling.Printable(strings.ToValidUTF8(string(lines[len(lines)-1]), "?"), ' ')
	if last = strings.TrimSpace(last); last == "" {
		return err
	}
	return fmt.Errorf("%w: %s", err, spelling.Cut(last, maxProblem))
}

// parseCount reads a number, or counts the lines that are not empty.
func parseCount(printed []byte, lines bool) (int64, error) {
	if lines {
		var count int64
		for line := range bytes.Lines(printed) {
			if len(bytes.TrimSpace(line)) > 0 {
				count++
			}
		}
		return count, nil
	}
	text := string(bytes.TrimSpace(printed))
	count, err := strconv.ParseInt(text, 10, 64)
	if err != nil || count < 0 || count > resource.MaxQuantity || text[0] == '+' {
		return 0, fmt.Errorf("printed %q: want a whole number from 0 to %d", spelling.Cut(text, 64), int64(resource.MaxQuantity))
	}
	return count, nil
}
