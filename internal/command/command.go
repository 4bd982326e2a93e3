// Package command runs a program that the configuration names, to read what it prints. The program
// gets no shell and no more rights than it is given. It is the leader of a session of its own: it
// has no terminal, and could not type into one. Its process group is killed as a whole when the
// program has ended, or should have. It cannot gain rights by a setuid bit.
//
// What leaves the process group (setsid) is not killed, and its output is waited for a second. If
// this process is killed, the program is killed as well, but not what it has started.
//
// A Command may be run by any goroutine, more than once at a time.
package command

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// drainTime is how long the output of a program is read after its end: it is in the pipe, but
	// a process that got away may hold the other end open.
	drainTime = time.Second
	// killTime is how long a process that was killed may take to be gone. One that hangs in the
	// kernel, in a file system of the network for example, may never be.
	killTime = 2 * time.Second
)

// Command is a program with all that it is started with. Its standard input is empty.
type Command struct {
	// Args are the path of the program and its arguments. No shell reads them.
	Args []string
	// Dir is its working directory.
	Dir string
	// Env is its whole environment, NAME=VALUE each.
	Env []string
	// Credential is the user that it runs as, with groups; nil: as this process.
	Credential *syscall.Credential
	// MaxOutput is the most that it may print on its standard output, in bytes.
	MaxOutput int64
	// Check looks at the program before each run, and says why it must not run. To look at a file
	// may hang as well as the program, if it is in a file system of the network. Nil: it may run.
	Check func() error

	// What a test puts in place of the kernel; nil and 0: killGroup and killTime.
	kill     func(group int) error
	patience time.Duration
}

// Printed is what a program has printed.
type Printed struct {
	// Output is its standard output.
	Output []byte
	// Errors are the last lines of its standard error, cleaned: printable, on one line, of at most
	// MaxErrors bytes.
	Errors string
}

// TooMuchError says that a program printed more than it may on its standard output.
type TooMuchError struct{ Most int64 }

func (e *TooMuchError) Error() string { return fmt.Sprintf("it printed more than %d bytes", e.Most) }

// StartError says that a program could not be started.
type StartError struct{ Err error }

func (e *StartError) Error() string { return "it could not be started: " + e.Err.Error() }

// Unwrap returns what the kernel said.
func (e *StartError) Unwrap() error { return e.Err }

// UndeadError says that a program should have ended and could not be killed, or that it could not
// even be looked at or started.
type UndeadError struct {
	// Cause is why it was to end.
	Cause error
	// Gone is closed when nothing is left of it.
	Gone <-chan struct{}
}

func (e *UndeadError) Error() string {
	return e.Cause.Error() + "; it hangs in the kernel and cannot be killed"
}

// Unwrap returns the cause.
func (e *UndeadError) Unwrap() error { return e.Cause }

// Run runs the program to its end, or until ctx ends. Errors: *exec.ExitError (it ended with
// another code than 0, or by a signal), the cause of ctx, *TooMuchError, *UndeadError, *StartError,
// and what Check says. What it has printed is returned with an error, too.
func (c *Command) Run(ctx context.Context) (Printed, error) {
	if ctx.Err() != nil {
		return Printed{}, context.Cause(ctx)
	}
	output, err := newOutput()
	if err != nil {
		return Printed{}, err
	}
	defer output.close()
	problems, err := newOutput()
	if err != nil {
		return Printed{}, err
	}
	defer problems.close()
	output.collect(c.MaxOutput)
	problems.collectLast()
	p := c.start(output.write, problems.write)
	err = c.end(p, c.await(ctx, p, output.full))
	output.hurry()
	problems.hurry()
	<-output.done
	<-problems.done
	if err == nil {
		err = output.err
	}
	return Printed{Output: output.data, Errors: clean(problems.data)}, err
}

// process is one run of a program.
type process struct {
	// started is closed when it runs, with the number pid, or when it will not: pid is 0.
	started chan struct{}
	pid     int
	// ended is closed when it has ended. Until reap is closed its number stays its own, so that no
	// other group can have it when the signal is sent.
	ended, reap chan struct{}
	// gone is closed when nothing is left of it; exit is how it ended, by then.
	gone chan struct{}
	exit error
}

// start begins a run. The files are for what it prints, and are closed.
func (c *Command) start(output, problems *os.File) *process {
	command := exec.Command(c.Args[0], c.Args[1:]...)              //nolint:gosec,noctx // it is the configuration's to say, and is killed with its group
	command.Dir, command.Env = c.Dir, append([]string{}, c.Env...) // nil would be this process's
	command.Stdout, command.Stderr = output, problems
	command.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Credential: c.Credential, Pdeathsig: syscall.SIGKILL}
	p := &process{started: make(chan struct{}), ended: make(chan struct{}), reap: make(chan struct{}), gone: make(chan struct{})}
	go func() {
		defer close(p.gone)
		// Never unlocked: what the thread has given up it has given up for good, and the program is
		// killed when the thread that started it ends.
		runtime.LockOSThread()
		err := c.launch(command)
		_, _ = output.Close(), problems.Close() // the program has its own
		if err != nil {
			p.exit = err
			close(p.started)
			close(p.ended)
			return
		}
		p.pid = command.Process.Pid
		close(p.started)
		for errors.Is(unix.Waitid(unix.P_PID, p.pid, nil, unix.WEXITED|unix.WNOWAIT, nil), unix.EINTR) {
		}
		close(p.ended)
		<-p.reap
		p.exit = command.Wait()
	}()
	return p
}

// launch checks the program and starts it, with the rights of this thread, which it lessens.
func (c *Command) launch(command *exec.Cmd) error {
	if c.Check != nil {
		if err := c.Check(); err != nil {
			return err
		}
	}
	err := confine()
	if err == nil {
		err = command.Start()
	}
	if err != nil {
		return &StartError{err}
	}
	return nil
}

// confine takes from the calling thread, and so from what it starts, what a program must not get.
func confine() error {
	// No setuid bit and no file capability gives what it starts other rights than it has.
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("no new privileges: %w", err)
	}
	// Capabilities that were handed to this process would be handed on, also to another user.
	// Before Linux 4.3 there are none of that kind.
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil && !errors.Is(err, unix.EINVAL) {
		return fmt.Errorf("ambient capabilities: %w", err)
	}
	return closeOnExec()
}

// closeOnExec keeps all files of this process from what it starts. Go opens files so; those that
// the process was started with may be others.
func closeOnExec() error {
	err := unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC)
	if err != nil { // before Linux 5.11, or in a sandbox that does not know the call
		err = closeEachOnExec()
	}
	return err
}

// await waits until the program has ended, or should end: then it returns why.
func (c *Command) await(ctx context.Context, p *process, full <-chan struct{}) error {
	select {
	case <-p.ended:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-full:
		return &TooMuchError{c.MaxOutput}
	}
}

// end kills the whole group. It returns cause, why the program has to end, or how it ended if that
// is nil.
func (c *Command) end(p *process, cause error) error {
	kill, patience := c.kill, c.patience
	if kill == nil {
		kill, patience = killGroup, killTime
	}
	go func() {
		<-p.started
		if p.pid != 0 {
			_ = kill(p.pid) // there may be no process left
			close(p.reap)
		}
	}()
	if cause == nil {
		<-p.gone
		return p.exit
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-p.gone:
		return cause
	case <-timer.C:
		return &UndeadError{cause, p.gone}
	}
}

func killGroup(group int) error {
	return unix.Kill(-group, unix.SIGKILL) //nolint:wrapcheck // nobody reads it
}
