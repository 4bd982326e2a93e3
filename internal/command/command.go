// Package command runs a program that the configuration names, and reads its output. The program
// gets no shell and only the rights that it is given. It is the leader of a new session: it has no
// terminal, and cannot type into one. It cannot gain rights by a setuid bit, unless
// Command.KeepsRights allows it.
//
// Nothing that it starts outlives it or its time limit, in whatever session or process group, and
// whether or not its parents have ended. For this, a second process of this program, the watcher,
// runs between the two. It kills all processes of the command when the program has ended, when its
// time is over, and when this process has ended, even by SIGKILL. A program that runs as this
// process's user could kill its watcher, as it could kill this process.
//
// A Command may be run by any goroutine, and several times at once.
package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// drainTime is how long the output is read after the program's end. The output is already in
	// the pipe, but a process that hangs in the kernel may hold the other end open.
	drainTime = time.Second
	// killTime is how long a killed process may take to disappear. A process that hangs in the
	// kernel, for example in a network file system, may never disappear.
	killTime = 2 * time.Second
)

// Command is a program and its start parameters. Its standard input is empty.
type Command struct {
	// Args are the path of the program and its arguments. No shell interprets them.
	Args []string
	// Dir is its working directory.
	Dir string
	// Env is its whole environment, in the form NAME=VALUE.
	Env []string
	// Credential is the user that it runs as, with groups; nil: this process's user.
	Credential *syscall.Credential
	// KeepsRights: it may gain rights by a setuid bit, and keeps all capabilities of this process.
	KeepsRights bool
	// MaxOutput is the size limit of its standard output, in bytes.
	MaxOutput int64
	// Check checks the program before each run and returns the reason why it must not run. The
	// check can hang like the program itself, if the file is in a network file system. Nil: it may
	// run.
	Check func() error

	// Tests replace the kill by the watcher, which finish starts, and killTime. nil and 0: no
	// replacement.
	kill     func(finish func())
	patience time.Duration
}

// Printed is the output of a program.
type Printed struct {
	// Output is its standard output.
	Output []byte
	// Errors are the last lines of its standard error, cleaned: printable, on one line, at most
	// MaxErrors bytes.
	Errors string
}

// TooMuchError reports that a program exceeded its output limit.
type TooMuchError struct{ Most int64 }

func (e *TooMuchError) Error() string { return fmt.Sprintf("it printed more than %d bytes", e.Most) }

// StartError reports that a program could not be started.
type StartError struct{ Err error }

func (e *StartError) Error() string { return "it could not be started: " + e.Err.Error() }

// Unwrap returns the kernel's error.
func (e *StartError) Unwrap() error { return e.Err }

// ExitError reports that a program ended with an exit code other than 0, or by a signal.
type ExitError struct{ Status syscall.WaitStatus }

func (e *ExitError) Error() string {
	if !e.Status.Signaled() {
		return fmt.Sprintf("exit status %d", e.Status.ExitStatus())
	}
	text := "signal: " + e.Status.Signal().String()
	if e.Status.CoreDump() {
		text += " (core dumped)"
	}
	return text
}

// ExitCode returns the exit code; -1 after a signal.
func (e *ExitError) ExitCode() int { return e.Status.ExitStatus() }

// UndeadError reports that a program, or a process that it has started, could not be killed when it
// should have ended. It is also returned if the check or the start hangs.
type UndeadError struct {
	// Cause is the reason why it should have ended.
	Cause error
	// Gone is closed when all of its processes are gone.
	Gone <-chan struct{}
}

func (e *UndeadError) Error() string {
	return e.Cause.Error() + "; it hangs in the kernel and cannot be killed"
}

// Unwrap returns the cause.
func (e *UndeadError) Unwrap() error { return e.Cause }

// Run runs the program until its end or the end of ctx. Errors: *ExitError, the cause of ctx,
// *TooMuchError, *UndeadError, *StartError, and the error of Check. It returns the output with an
// error, too.
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
	// finish is closed when all processes must end.
	finish chan struct{}
	// ended is closed when the program has ended; exit is then its result.
	ended chan struct{}
	exit  error
	// gone is closed when all of its processes are gone.
	gone chan struct{}
}

// start begins a run. It closes the files, which are for the program's output.
func (c *Command) start(output, problems *os.File) *process {
	p := &process{finish: make(chan struct{}), ended: make(chan struct{}), gone: make(chan struct{})}
	go func() {
		defer close(p.gone)
		w, err := c.launch(output, problems)
		_, _ = output.Close(), problems.Close() // the program has its own
		if err != nil {
			p.exit = err
			close(p.ended)
			return
		}
		go func() {
			<-p.finish
			_ = w.control.Close()
		}()
		p.exit = w.hear()
		close(p.ended)
		<-p.finish
		_ = w.process.Wait() // its report has said everything
	}()
	return p
}

// watching is a running watcher.
type watching struct {
	process *exec.Cmd
	control *os.File // the command may run while it is open
	report  *os.File
}

// launch checks the program and starts it with its watcher.
func (c *Command) launch(output, problems *os.File) (*watching, error) {
	if c.Check != nil {
		if err := c.Check(); err != nil {
			return nil, err
		}
	}
	w, err := c.startWatcher(output, problems)
	if err != nil {
		return nil, &StartError{err}
	}
	return w, nil
}

func (c *Command) startWatcher(output, problems *os.File) (*watching, error) {
	control, controls, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer control.Close()
	report, reports, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, controls.Close())
	}
	defer reports.Close()
	process := exec.Command("/proc/self/exe") //nolint:noctx // it ends with its control file
	process.Args, process.Env, process.Dir = []string{watcherName}, []string{}, "/"
	process.Stdout, process.Stderr, process.ExtraFiles = output, problems, []*os.File{control, reports}
	process.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := process.Start(); err != nil {
		return nil, errors.Join(err, controls.Close(), report.Close())
	}
	// If the watcher has ended, the end of its report tells.
	_ = json.NewEncoder(controls).Encode(order{c.Args, c.Env, c.Dir, c.Credential, c.KeepsRights}) //nolint:errchkjson // the pipe may have ended
	return &watching{process, controls, report}, nil
}

// errUnwatched reports that a watcher has ended without a report about its command.
var errUnwatched = errors.New("how it ended is not known: the process that watches it has ended")

// hear waits for the end of the command and returns its result.
func (w *watching) hear() error {
	defer w.report.Close()
	var said report
	switch err := json.NewDecoder(w.report).Decode(&said); {
	case err != nil:
		return errUnwatched
	case said.Failed != "" && said.Errno != 0:
		return &StartError{&startError{said.Failed, said.Errno}}
	case said.Failed != "":
		return &StartError{errors.New(said.Failed)}
	case said.Status != 0:
		return &ExitError{said.Status}
	}
	return nil
}

// startError is an error from a watcher, with the kernel's error number.
type startError struct {
	text string
	err  syscall.Errno
}

func (e *startError) Error() string { return e.text }

func (e *startError) Unwrap() error { return e.err }

// confine removes rights from the calling thread, and so from the processes that it starts.
func confine() error {
	// No setuid bit and no file capability gives a started process additional rights.
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("no new privileges: %w", err)
	}
	// Otherwise ambient capabilities would pass to the program, even as another user. Before Linux
	// 4.3 there are none.
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil && !errors.Is(err, unix.EINVAL) {
		return fmt.Errorf("ambient capabilities: %w", err)
	}
	return closeOnExec()
}

// closeOnExec keeps the files of this process from the processes that it starts. Go marks its own
// files, but the process may have inherited others.
func closeOnExec() error {
	err := unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC)
	if err != nil { // before Linux 5.11, or in a sandbox that does not know the call
		err = closeEachOnExec()
	}
	return err
}

// await waits until the program ends or must end; it returns the reason for the latter.
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

// errLeft is the reason to kill the remaining processes after the end of the program.
var errLeft = errors.New("it has ended, and has left a process behind")

// end kills all remaining processes. It returns cause, the reason why the program must end; if that
// is nil, it returns the program's result.
func (c *Command) end(p *process, cause error) error {
	finish, patience := func() { close(p.finish) }, killTime
	if c.patience != 0 {
		patience = c.patience
	}
	if c.kill != nil {
		c.kill(finish)
	} else {
		finish()
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-p.gone:
	case <-timer.C:
		if cause == nil {
			cause = errLeft
		}
		return &UndeadError{cause, p.gone}
	}
	if cause == nil {
		return p.exit
	}
	return cause
}
