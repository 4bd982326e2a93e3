package engines

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/bursar/bursar/client"
	"github.com/bursar/bursar/internal/cli/cmdline"
	"github.com/bursar/bursar/internal/cli/failure"
	"github.com/bursar/bursar/internal/cli/render"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// lastWord is how long run asks how a command ended, if a signal ended it and the answer to the
// release did not say so.
const lastWord = 2 * time.Second

// runEnd returns the error with which the program ends. It prints why the command ended, if
// somebody else than the command is the cause.
func runEnd(ctx context.Context, c *failure.Reporter, cl *client.Client, result client.RunResult, err error) error {
	var failed *client.RunError
	if !errors.As(err, &failed) {
		a := result.Allocation
		if killed(result.State) && !render.HasEnded(a) {
			a = endedAllocation(ctx, cl, a.GetId())
		}
		sayEnd(c.Printer, a)
		return ended(result.State)
	}
	switch failed.Phase {
	case client.PhaseStart:
		switch {
		case errors.Is(err, exec.ErrNotFound), errors.Is(err, os.ErrNotExist):
			return &failure.ExitError{Code: failure.ExitNotFound, Err: err}
		case errors.Is(err, os.ErrPermission), errors.Is(err, syscall.ENOEXEC):
			return &failure.ExitError{Code: failure.ExitNotExecutable, Err: err}
		}
	case client.PhaseConfirm:
		c.Sayf("bursar: stopped the command, which may not run without its allocation")
		if client.NotFound(err) || client.Precondition(err) { // the reservation ended before
			return &failure.ExitError{Code: failure.ExitNoResources, Err: err}
		}
	case client.PhaseRelease:
		c.Sayf("bursar: %s; the agent notices that the command has ended, and gives back what it had", c.Message(err))
		if killed(result.State) {
			sayEnd(c.Printer, endedAllocation(ctx, cl, result.Allocation.GetId()))
		}
		return ended(result.State)
	case client.PhaseAllocate:
	}
	return err
}

// killed reports whether a signal has ended a command, or the command of its shell.
func killed(state *os.ProcessState) bool {
	status := client.ExitStatus(state)
	return status.GetSignal() != 0 || status.GetCode() > failure.ExitSignal
}

// endedAllocation waits for a moment until it is known how an allocation ended. It returns nil if
// nobody says.
func endedAllocation(ctx context.Context, cl *client.Client, id string) (last *bursarv1.Allocation) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastWord)
	defer cancel()
	_ = cmdline.WaitFor(ctx, func() (bool, error) {
		res, err := cl.Allocations().Get(ctx, &bursarv1.AllocationServiceGetRequest{Id: id})
		if render.HasEnded(res.GetAllocation()) {
			last = res.GetAllocation()
		}
		return last != nil || err != nil && ctx.Err() != nil, nil
	})
	return last
}

// sayEnd prints why a command ended, with the amount to ask for next time. It prints nothing about
// one that ended by itself.
func sayEnd(out *render.Printer, a *bursarv1.Allocation) {
	why := render.EndCause(a)
	if why == "" {
		return
	}
	out.Sayf("bursar: %s", render.Printable(why))
	if facts := render.MemoryFacts(a); facts != "" {
		out.Sayf("bursar: %s", facts)
	}
}

// ended returns the command's own exit code, as an error without a text.
func ended(state *os.ProcessState) error {
	status := client.ExitStatus(state)
	switch {
	case status.GetSignal() != 0:
		return &failure.ExitError{Code: failure.ExitSignal + int(status.GetSignal())}
	case status.GetCode() != 0:
		return &failure.ExitError{Code: int(status.GetCode())}
	}
	return nil
}
