package look

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bursar/bursar/agent/keeper"
)

const (
	// killPatience is how long processes are killed that a command has started.
	killPatience = 2 * time.Second
	// drainTime is how long the output of a command that has ended is still read.
	drainTime = 100 * time.Millisecond
)

// command is run until it exits with 0.
type command struct {
	spec keeper.HelperSpec
	// none is closed when nothing is left of the last run.
	none chan struct{}
}

func (c *command) look(ctx context.Context) (bool, string) {
	if c.none != nil && !c.over() {
		keeper.KillBelow(os.Getpid(), killPatience)
		if !c.over() {
			return false, "the command has left processes that cannot be ended"
		}
	}
	pid, err := c.start()
	if err != nil {
		return false, "command: " + err.Error()
	}
	switch status, ended := c.await(ctx, pid); {
	case !ended:
		return false, "the command did not end within " + c.spec.Look.Limit.String()
	case status.Exited() && status.ExitStatus() == 0:
		return true, ""
	case status.Exited():
		return false, fmt.Sprintf("the command exits with %d", status.ExitStatus())
	default:
		return false, fmt.Sprintf("the command was ended by signal %d", int(status.Signal()))
	}
}

// over reports whether nothing is left of the last run.
func (c *command) over() bool {
	select {
	case <-c.none:
		return true
	case <-time.After(drainTime): // the end of the last process is being waited for
		return false
	}
}

// start starts the command in a process group of its own. Its outputs go nowhere: they may have
// secrets, and more callers see why an engine is not ready than see its output. The command stays
// in the session of this process, by which the keeper knows it if this process is killed.
func (c *command) start() (pid int, err error) {
	program, err := keeper.Find(c.spec.Look.Command[0], c.spec.Environment)
	if err != nil {
		return 0, err //nolint:wrapcheck // says all
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return 0, err //nolint:wrapcheck // says all
	}
	defer null.Close()
	environment := c.spec.Environment
	if environment == nil {
		environment = []string{} // nil would be this program's
	}
	process, err := keeper.StartClean(program, c.spec.Look.Command, &os.ProcAttr{
		Dir: c.spec.WorkingDirectory, Env: environment, Files: []*os.File{null, null, null},
		// It ends with this process, however that ends.
		Sys: &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL},
	})
	if err != nil {
		if wrong, is := errors.AsType[*os.PathError](err); is {
			err = wrong.Err // the arguments may be secret, and its name is known
		}
		return 0, err //nolint:wrapcheck // says all
	}
	pid = process.Pid
	_ = process.Release() // await waits for it
	return pid, nil
}

// await waits until the command has ended, or ctx has, and then kills all that it has started.
// Nothing is left of it then, except processes of other users.
func (c *command) await(ctx context.Context, pid int) (status unix.WaitStatus, ended bool) {
	main, none := make(chan unix.WaitStatus, 1), make(chan struct{})
	c.none = none
	go func() {
		defer close(none)
		for {
			var status unix.WaitStatus
			switch child, err := unix.Wait4(-1, &status, 0, nil); {
			case errors.Is(err, unix.EINTR):
			case err != nil:
				return // there is no child
			case child == pid:
				main <- status
			}
		}
	}()
	select {
	case status = <-main:
		ended = true
	case <-ctx.Done():
	}
	if !ended || !errors.Is(unix.Waitid(unix.P_ALL, 0, nil, unix.WEXITED|unix.WALL|unix.WNOHANG|unix.WNOWAIT, nil), unix.ECHILD) {
		keeper.KillBelow(os.Getpid(), killPatience)
	}
	return status, ended
}
