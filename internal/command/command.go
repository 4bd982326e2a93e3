// Package command runs a program that the configuration names, to read what it prints. The program
// gets no shell and no more rights than it is given. It is the leader of a session of its own: it
// has no terminal, and could not type into one. It cannot gain rights by a setuid bit, unless it
// may (Command.KeepsRights).
//
// Nothing that it starts outlives it or its time, whatever session or process group that is in, and
// whether or not its parents have ended. A second process of this program, a watcher, runs between
// the two and kills it all: when the program has ended, when it should have, and when this process
// has ended, even by SIGKILL. A program that runs as this process's user could kill its watcher, as
// it could kill this process.
//
// A Command may be run by any goroutine, more than once at a time.
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
	// drainTime is how long the output of a program is read after its end: it is in the pipe, but
	// a process that hangs in the kernel may hold the other end open.
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
	// KeepsRights: it may gain rights by a setuid bit, and has all capabilities of this process.
	KeepsRights bool
	// MaxOutput is the most that it may print on its standard output, in bytes.
	MaxOutput int64
	// Check looks at the program before each run, and says why it must not run. To look at a file
	// may hang as well as the program, if it is in a file system of the network. Nil: it may run.
	Check func() error

	// A test replaces the end by the watcher, which finish brings about, and killTime; nil and 0:
	// it does not.
	kill     func(finish func())
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

// ExitError says that a program ended with another code than 0, or by a signal.
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

// ExitCode returns the code; -1: it ended by a signal.
func (e *ExitError) ExitCode() int { return e.Status.ExitStatus() }

// UndeadError says that a program, or a process that it has started, should have ended and could
// not be killed, or that it could not even be looked at or started.
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

// Run runs the program to its end, or until ctx ends. Errors: *ExitError, the cause of ctx,
// *TooMuchError, *UndeadError, *StartError, and what Check says. What it has
// printed is returned with an error, too.
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
	// finish is closed when all is to end.
	finish chan struct{}
	// ended is closed when the program has ended; exit is how, by then.
	ended chan struct{}
	exit  error
	// gone is closed when nothing is left of it.
	gone chan struct{}
}

// start begins a run. The files are for what it prints, and are closed.
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
		_ = w.process.Wait() // its report has said all
	}()
	return p
}

// watching is a watcher that runs.
type watching struct {
	process *exec.Cmd
	control *os.File // until it is closed, the command may run
	report  *os.File
}

// launch checks the program and starts it, with its watcher.
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
	// If the watcher has ended, its report has ended, too, which says it.
	_ = json.NewEncoder(controls).Encode(order{c.Args, c.Env, c.Dir, c.Credential, c.KeepsRights}) //nolint:errchkjson // the pipe may have ended
	return &watching{process, controls, report}, nil
}

// errUnwatched says that a watcher has ended and has not said how its command has.
var errUnwatched = errors.New("how it ended is not known: the process that watches it has ended")

// hear waits until the command has ended, and returns how.
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

// startError is an error of a watcher's, with the kernel's.
type startError struct {
	text string
	err  syscall.Errno
}

func (e *startError) Error() string { return e.text }

func (e *startError) Unwrap() error { return e.err }

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

// errLeft is why the processes of a program are to end, if the program has ended.
var errLeft = errors.New("it has ended, and has left a process behind")

// end kills all that is left. It returns cause, why the program has to end, or how it ended if that
// is nil.
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
